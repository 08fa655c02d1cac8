"""The paper: its list of runs, and the tables and figures made of what they left."""
