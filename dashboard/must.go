package dashboard

import (
	"fmt"
	"strings"
)

// must turns the validator's finding about a field into a sentence that says
// what the field must be.
func must(field, finding string) string {
	switch what := strings.TrimPrefix(finding, "expected "); what {
	case "length >= 1":
		return field + " must not be empty."
	case "integer", "object", "array":
		return field + " must be an " + what + "."
	case "string", "number", "boolean":
		return field + " must be a " + what + "."
	}
	if values, ok := strings.CutPrefix(finding, `expected value to be one of "`); ok {
		return field + " must be one of " + strings.TrimSuffix(values, `"`) + "."
	}
	for _, rule := range []struct{ finding, must, unit string }{
		{"expected length >= ", "have at least ", " characters"},
		{"expected length <= ", "have at most ", " characters"},
		{"expected number >= ", "be at least ", ""},
		{"expected number <= ", "be at most ", ""},
		{"expected number > ", "be more than ", ""},
		{"expected number < ", "be less than ", ""},
		{"expected array length >= ", "have at least ", " items"},
		{"expected array length <= ", "have at most ", " items"},
		{"expected string to ", "", ""},
		{"expected value to ", "", ""},
		{"expected number to ", "", ""},
	} {
		if limit, ok := strings.CutPrefix(finding, rule.finding); ok {
			return field + " must " + rule.must + limit + rule.unit + "."
		}
	}
	return field + " is not valid: " + finding + "."
}

// aside adds why a body is no object, where there is more to say than that.
func aside(finding string) string {
	if finding == "" || strings.HasPrefix(finding, "expected object") {
		return ""
	}
	return fmt.Sprintf("; %s", strings.TrimSuffix(finding, "."))
}
