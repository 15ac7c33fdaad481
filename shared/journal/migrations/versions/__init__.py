"""One file a migration. A landed migration is never edited: the next one changes what it made."""
