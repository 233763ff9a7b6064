package gmail_test

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/sources/gmail"
)

func TestConfig(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(gmail.Triggers().Types[0].Config))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:/", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema:/")
	if err != nil {
		t.Fatal(err)
	}
	for config, fits := range map[string]bool{
		`{}`: true, `{"labels":["INBOX","Label_12","CATEGORY_UPDATES"]}`: true,
		`{"labels":"INBOX"}`: false, `{"labels":[""]}`: false, `{"labels":["My label"]}`: false, `{"label":["INBOX"]}`: false,
	} {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(config)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != fits {
			t.Errorf("%s: %v", config, err)
		}
	}
}
