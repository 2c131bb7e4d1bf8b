"""Job plugins that come with Hekla, one file each."""
