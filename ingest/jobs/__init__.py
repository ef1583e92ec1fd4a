"""What commands do, one file a kind. Each works page by page, so that a job resumes where it stood, and gives way."""
