"""TensorFlow Lite files: `model` reads them, `operators/` knows what each operator becomes,
`build` makes the graph.
"""
