"""What tshark calls the fields of esp."""

from tests.tshark.table import Table

TABLES = [Table("esp", "esp", {"spi": "esp.spi", "sequence": "esp.sequence"})]
