"""Reading: tables, texts that mean numbers or times, AnnData."""
