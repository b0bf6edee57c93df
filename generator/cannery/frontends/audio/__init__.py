"""Files of audio networks, which are JSON: Neural Amp Modeler, RTNeural and AIDA-X, GuitarML."""
