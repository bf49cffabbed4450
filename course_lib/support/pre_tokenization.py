"""Cut text into words, and words into bytes, before byte-pair encoding merges them."""

import re


def byte_words(text: str, pre_tokenize: bool = True) -> list[tuple[bytes, ...]]:
    """Split text into words, and each word into bytes.

    Paper: not mentioned; the rule is GPT-2's. Without ``pre_tokenize``, the whole text is one word.
    """
    kinds = ""
    for character in text:
        if character.isascii():
            kinds += character
        elif character.isalpha():
            kinds += "x"
        elif character.isalnum():  # a numeral, because letters are handled above
            kinds += "0"
        else:
            kinds += "\t" if character.isspace() else "!"
    pattern = r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
    matches = re.finditer(pattern if pre_tokenize else r"(?s:.+)", kinds, re.ASCII)
    words = [text[match.start() : match.end()] for match in matches]
    return [tuple(bytes([number]) for number in word.encode()) for word in words]
