"""Reading data: tables, texts that mean numbers or times, and AnnData."""
