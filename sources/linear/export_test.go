package linear

import "sallyport/internal/outbound"

// Limited reads which answers want fewer requests.
var Limited = limited

// Refused is what an answer that is no success means.
func Refused(resp *outbound.Response) error {
	a, _ := read(resp)
	return a.refusal(resp.Status)
}
