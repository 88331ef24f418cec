"""The least effort with which ratings bring an outcome about: branch and bound over stars, mixed-integer programs."""
