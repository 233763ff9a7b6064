package slack

// Success and Limited read an answer.
var (
	Success = checkResponse
	Limited = rateLimited
)
