"""What goes wrong in chapter 16's average of checkpoints."""

from course_lib.exercises.mistake_catalogue import known

average = known("batching", "average_weights")

MEAN = "torch.stack([state[name].double() for state in states]).mean(dim=0).to(value.dtype)"
RETURN = f"""    return {{
        name: {MEAN}
        for name, value in states[0].items()
    }}
"""
NONE = """    if not states:
        raise ValueError("there are no weights to average")
"""
CHECKS = (
    NONE
    + """    first = {name: value.shape for name, value in states[0].items()}
    for state in states:
        if {name: value.shape for name, value in state.items()} != first:
            raise ValueError("these weights are of different models: names or shapes differ")
"""
)
SAME = "{name: value.shape for name, value in state.items()} != first"

MISTAKES = (
    average(
        "added_in_place",
        "the sum is built in the first checkpoint's own tensors: they change, shared ones twice",
        "facebookresearch/fairseq #647, espnet/espnet #5533",
        (
            RETURN,
            """    total = dict(states[0])
    for state in states[1:]:
        for name in total:
            total[name] += state[name]
    return {name: (value / len(states)).to(value.dtype) for name, value in total.items()}
""",
        ),
    ),
    average(
        "divided_in_place",
        "whole numbers are divided in place: a quotient needs another dtype, and torch refuses",
        "LuminLiu/HierFL #1, AI-secure/DBA #1, espnet/espnet #2604",
        (
            RETURN,
            """    total = {name: value.clone() for name, value in states[0].items()}
    for name in total:
        for state in states[1:]:
            total[name] += state[name]
        total[name] /= len(states)
    return total
""",
        ),
    ),
    average(
        "first_overwritten",
        "the first `state_dict` is used for the result: it is the caller's",
        "OpenMined/PySyft #3613",
        (
            RETURN,
            f"""    average = states[0]
    for name, value in average.items():
        average[name] = {MEAN}
    return average
""",
        ),
    ),
    average(
        "not_divided",
        "the sum is returned: divide it by the number of checkpoints",
        "student code",
        (".mean(dim=0)", ".sum(dim=0)"),
    ),
    average(
        "one_too_few",
        "the sum is divided by one less than there are: that is for a variance",
        "student code: counted from 0",
        (".mean(dim=0)", ".sum(dim=0).div(max(1, len(states) - 1))"),
    ),
    average(
        "first_counted_twice",
        "the sum begins with the first checkpoint, and the first is added again",
        "OpenMined/PySyft #3863: a sum that does not begin with 0",
        (
            "torch.stack([state[name].double() for state in states]).mean(dim=0)",
            "torch.stack([state[name].double() for state in [states[0], *states]]).sum(dim=0)"
            ".div(len(states))",
        ),
    ),
    average(
        "newest_multiplied",
        "a running mean multiplies the new weights by the count, and they drown the mean so far",
        "pbaylies/stylegan-encoder #13",
        (
            RETURN,
            """    average = {name: value.double() for name, value in states[0].items()}
    for n, state in enumerate(states[1:], start=1):
        average = {k: (n * state[k].double() + v) / (n + 1) for k, v in average.items()}
    return {name: average[name].to(value.dtype) for name, value in states[0].items()}
""",
        ),
    ),
    average(
        "halved_again_and_again",
        "mean and next checkpoint are averaged in turn: the last one counts half, the first least",
        "student code: (a + b) / 2 in a loop",
        (
            RETURN,
            """    average = {name: value.double() for name, value in states[0].items()}
    for state in states[1:]:
        average = {name: (value + state[name].double()) / 2 for name, value in average.items()}
    return {name: average[name].to(value.dtype) for name, value in states[0].items()}
""",
        ),
    ),
    average(
        "last_one_wins",
        "the dicts are joined: under each name the last checkpoint's numbers stay",
        "student code: dict.update",
        (".mean(dim=0)", "[-1]"),
    ),
    average(
        "own_dtype",
        "each number is averaged in its own dtype, and whole numbers have no mean",
        "pytorch/pytorch #94909 and #64897",
        (".double()", ""),
    ),
    average(
        "half_precision",
        "half precision is added in half precision: what is small beside the sum is lost",
        "OpenNMT/OpenNMT-py #1294",
        (
            "torch.stack([state[name].double() for state in states]).mean(dim=0)",
            "(sum(s[name] if value.is_floating_point() else s[name].double() for s in states) "
            "/ len(states))",
        ),
    ),
    average(
        "single_precision",
        "the numbers are added in float32: float64 is asked for",
        "student code: .float() for .double()",
        (".double()", ".float()"),
    ),
    average(
        "dtype_stays_float64",
        "the means stay in float64: put them back into the dtype of the first",
        "secretflow/secretflow #1056",
        (".to(value.dtype)", ""),
    ),
    average(
        "always_float32",
        "all means come out in float32, whatever the dtype was: files of half precision double",
        "facebookresearch/fairseq #1079",
        (".to(value.dtype)", ".float()"),
    ),
    average(
        "whole_numbers_of_the_first",
        "whole numbers are taken from the first checkpoint: they are averaged, too",
        "TsingZ0/PFLlib #269, pytorch/pytorch #84053",
        (MEAN, f"{MEAN} if value.is_floating_point() else value.clone()"),
    ),
    average(
        "whole_numbers_left_out",
        "only names with fractional numbers come out: a `state_dict` holds buffers, too",
        "OpenMined/PySyft #4595",
        (
            "for name, value in states[0].items()\n    }",
            "for name, value in states[0].items() if value.is_floating_point()\n    }",
        ),
    ),
    average(
        "by_place_not_by_name",
        "the tensors are matched by their place in the dict: go by name",
        "student code: zip(*(state.values() …))",
        (
            RETURN,
            """    rows = zip(*(state.values() for state in states))
    means = [torch.stack([x.double() for x in row]).mean(dim=0).to(row[0].dtype) for row in rows]
    return dict(zip(first, means))
""",
        ),
    ),
    average(
        "one_mean_of_all",
        "one mean of all numbers is taken: dim=0 goes over the checkpoints only",
        "student code: .mean() without dim",
        (".mean(dim=0)", ".mean()"),
    ),
    average(
        "common_names_only",
        "names that some checkpoint lacks are left out without a word",
        "espnet/espnet #6509: names that are lost on the way",
        (
            f"        if {SAME}",
            "        first = {name: shape for name, shape in first.items() if name in state}\n"
            "        if any(state[name].shape != shape for name, shape in first.items())",
        ),
        ("in states[0].items()\n    }", "in states[0].items()\n        if name in first\n    }"),
    ),
    average(
        "further_names_ignored",
        "names that only a later checkpoint has are ignored: it is of another model",
        "student code: for name in states[0]",
        (SAME, "{name: state[name].shape for name in first if name in state} != first"),
    ),
    average(
        "shapes_not_compared",
        "only the names are compared, and other shapes end in torch's own words",
        "student code",
        (SAME, "state.keys() != first.keys()"),
    ),
    average(
        "shapes_stretched",
        "other shapes are added all the same, stretched by broadcasting",
        "broadcasting in a sum",
        (SAME, "state.keys() != first.keys()"),
        (
            "torch.stack([state[name].double() for state in states]).mean(dim=0)",
            "(sum(state[name].double() for state in states) / len(states))",
        ),
    ),
    average(
        "nothing_checked",
        "nothing is compared: missing names and other shapes end in Python's or torch's own errors",
        "student code",
        (CHECKS, ""),
    ),
    average(
        "nothing_has_no_first",
        "no checkpoints end in an IndexError instead of a ValueError with words",
        "student code: states[0]",
        (NONE, ""),
    ),
    average(
        "nothing_is_an_empty_dict",
        "no checkpoints have an empty dict for an average: there is none",
        "student code",
        ('raise ValueError("there are no weights to average")', "return {}"),
    ),
)
