"""The recorded results (``*.json``), and the module that reads them."""
