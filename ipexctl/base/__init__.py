"""What every room may use: places in texts, sizes, quoting, odd values. Pure."""
