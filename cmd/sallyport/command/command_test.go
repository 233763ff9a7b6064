package command

import "testing"

// Errors of the parser do not reach users in its own terms.
func TestUsageText(t *testing.T) {
	for text, want := range map[string]string{
		`--wait: expected duration but got "x": time: invalid duration "x"`: `--wait: "x" is not a duration; pass one such as 30s, 10m or 8h`,
		`--max-calls: expected a valid 64 bit int but got "z"`:              `--max-calls: "z" is not a whole number`,
		`--logs: expected "<key>=<value>" but got "a"`:                      `--logs: "a" is not of the form NAME=VALUE`,
		`[<query> ...]: expected "<key>=<value>" but got "y"`:               `QUERY: "y" is not of the form NAME=VALUE`,
		`--header: expected string value but got "EOL" (<EOL>)`:             `--header needs a value`,
		`--kind must be one of "interactive","unattended","" but got "foo"`: `--kind must be one of "interactive","unattended", not "foo"`,
		`<mode> must be one of "allow","deny" but got "maybe"`:              `MODE must be one of "allow","deny", not "maybe"`,
		`expected "<automation> <provider>"`:                                `missing arguments: AUTOMATION PROVIDER`,
		`expected one of "create", "list", ...`:                             `a command is missing, one of "create", "list", ...`,
		`--rate: "x" is not a rate; write calls and window, such as 10/1m`:  `--rate: "x" is not a rate; write calls and window, such as 10/1m`,
		`unexpected argument nonsense`:                                      `unexpected argument nonsense`,
	} {
		if got := usageText(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
