"""What the corpora offer, apart from the code that reads them, which imports torch."""

LANGUAGES = {"de": "German", "fr": "French", "zh": "Chinese"}  # of number words
DIRECTIONS = {"de-en": "German to English", "en-de": "English to German"}  # of captions
SPLITS = ("train", "val", "test_2016_flickr")  # of captions
TEXTS = {
    "library": "the source code of Python's standard library",
    "shakespeare": "the plays of Shakespeare",
}
