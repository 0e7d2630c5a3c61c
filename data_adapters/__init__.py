"""Plug-ins: one data set a file. They import kvrelay; kvrelay never imports them."""
