package linear

import "sallyport/internal/outbound"

// Document is what an operation of that name sends.
var Document = document

// Limited reads which answers want fewer requests.
var Limited = limited

// Refused is what an answer that is no success means.
func Refused(resp *outbound.Response) error {
	a, _ := read(resp)
	return a.refusal(resp.Status)
}
