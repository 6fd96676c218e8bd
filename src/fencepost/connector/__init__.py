"""The source connectors that are shipped: FileStreamSource, VerifiableSource and Datagen.

They use nothing that an author of a connector could not use. Each keeps to one rule: what `poll` returns after a
restart depends on the committed source offset alone, so that records follow on exactly. `pace.Pace` holds a rate.
"""
