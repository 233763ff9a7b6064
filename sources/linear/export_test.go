package linear

import "sallyport/internal/outbound"

// Limited exports the rate limit detection.
var Limited = rateLimited

// Refused converts an unsuccessful response to an error.
func Refused(resp *outbound.Response) error {
	a, _ := parseResponse(resp)
	return a.err(resp.Status)
}
