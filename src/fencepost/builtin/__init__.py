"""The built-in plug-ins. Except for `mirror`, they import only what plug-ins of other authors import."""
