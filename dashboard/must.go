package dashboard

import (
	"fmt"
	"regexp"
	"strings"
)

// must turns huma's finding about a field into a sentence that says what the
// field must be.
func must(field, finding string) string {
	for _, rule := range rules() {
		form := regexp.MustCompile(rule.finding)
		if at := form.FindStringSubmatchIndex(finding); at != nil {
			return field + " " + string(form.ExpandString(nil, rule.says, finding, at)) + "."
		}
	}
	return field + " is not valid: " + finding + "."
}

type rule struct {
	finding string // an expression for all of it
	says    string // after the name of the field
}

// rules are huma's findings; what is said depends on the first that matches.
func rules() []rule {
	return []rule{
		{`^expected length >= 1$`, "must not be empty"},
		{`^expected length >= (.+)$`, "must have at least $1 characters"},
		{`^expected length <= (.+)$`, "must have at most $1 characters"},
		{`^expected number >= (.+)$`, "must be at least $1"},
		{`^expected number <= (.+)$`, "must be at most $1"},
		{`^expected number > (.+)$`, "must be more than $1"},
		{`^expected number < (.+)$`, "must be less than $1"},
		{`^expected array length >= (.+)$`, "must have at least $1 items"},
		{`^expected array length <= (.+)$`, "must have at most $1 items"},
		{`^expected value to be one of "(.*)"$`, "must be one of $1"},
		{`^expected (integer|object|array)$`, "must be an $1"},
		{`^expected (string|number|boolean)$`, "must be a $1"},
		{`^expected (?:string|value|number) to (.+)$`, "must $1"},
		{`^invalid integer$`, "must be an integer"},
		{`^invalid (float|number).*$`, "must be a number"},
		{`^invalid (bool|boolean).*$`, "must be true or false"},
		{`^required (\w+) parameter is missing$`, "is missing from the $1"},
	}
}

// aside adds why a body is no object, where there is more to say than that.
func aside(finding string) string {
	if finding == "" || strings.HasPrefix(finding, "expected object") {
		return ""
	}
	return fmt.Sprintf("; %s", strings.TrimSuffix(finding, "."))
}
