"""What operators become: functions under `@operator`, for quantised tensors under `@quantised`."""
