"""What every long training needs, whatever it learns: settings, clocks, polite stops, records."""
