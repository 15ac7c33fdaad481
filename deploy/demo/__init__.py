"""The demo: a small repository, a flow over it, and a model that is a script.

`run` brings the farm up around them and shows what came out; nothing here is needed
by a farm with a real model, and everything else it starts is the farm as it is.
"""
