package slack

// Success and Limited read an answer.
var (
	Success = success
	Limited = limited
)
