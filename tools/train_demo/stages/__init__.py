"""One module a training stage; each has train(options)."""
