"""Reading a representation: its dimensions, its images, and why two of them are similar."""
