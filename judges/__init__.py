"""Plug-ins: one judge a file, its prompts beside it. They import kvrelay; kvrelay never imports them."""
