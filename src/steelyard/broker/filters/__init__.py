"""Message filters, compiled: tags codes to compare with the consume queue, or a SQL92 condition over properties."""
