"""Schedules that compute in half precision, and the conversions around them."""
