"""AutoRec, CF-NADE and the recurrent model."""
