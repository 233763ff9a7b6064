package store

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"sallyport/store/connect"
	"sallyport/store/history"
	"sallyport/store/inbound"
	"sallyport/store/notify"
	"sallyport/store/people"
	"sallyport/store/policy"
	"sallyport/store/requests"
	"sallyport/store/workspaces"
)

// settingsRows has the row of each table of settings: it embeds the type of the action
// or event package.
func settingsRows() []any {
	return []any{
		&inbound.AutomationRow{}, &inbound.TriggerRow{}, &inbound.ScheduleRow{}, &inbound.EndpointRow{},
		&policy.CapabilityRow{}, &policy.OverrideRow{}, &policy.GateRow{}, &policy.QuotaRow{},
		&connect.ConnectorRow{}, &connect.IntegrationRow{}, &connect.ProviderAppRow{}, &connect.SecretRow{}, &connect.OAuthGrantRow{},
		&people.UserRow{}, &people.APIKeyRow{}, &notify.ChannelRow{}, &requests.EnvRow{},
		&workspaces.WorkspaceRow{}, &workspaces.RepositoryRow{}, &workspaces.VariableRow{},
	}
}

// TestRowsMatchTables compares both databases with the fields of the rows: a renamed
// field would be a column that does not exist.
func TestRowsMatchTables(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		for _, r := range settingsRows() {
			table := db.db.Read.Dialect().Tables().Get(reflect.TypeOf(r))
			want := columnsOf(t, raw, table.Name)
			var got []string
			for _, f := range table.Fields {
				got = append(got, f.Name)
			}
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%T has the columns\n%q, and %s\n%q", r, got, table.Name, want)
			}
			if table.FieldMap["organization_id"] == nil || !table.FieldMap["organization_id"].IsPK {
				t.Errorf("%T is changed and deleted whatever its organization: organization_id belongs to its key", r)
			}
		}
	})
}

// internalColumn matches what is never shown: credentials and leases.
var internalColumn = regexp.MustCompile(`^(.*_)?(sealed|hash|token|holder|lease|lease_until|claim_id)$`)

// TestRowsDoNotLeakSecrets checks that neither the JSON of an embedded type, which the
// API shows, nor history contains sealed bytes or a column outside the embedded type.
func TestRowsDoNotLeakSecrets(t *testing.T) {
	const secret = "swordfish"
	hidden := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))}
	base := reflect.TypeFor[bun.BaseModel]()
	for _, r := range settingsRows() {
		v := reflect.ValueOf(r).Elem()
		if v.Type().Field(0).Type != base || !v.Type().Field(1).Anonymous {
			t.Fatalf("%T does not begin with its table and its word", r)
		}
		for i := 2; i < v.NumField(); i++ {
			conceal(v.Field(i), secret)
		}
		word := v.Field(1)
		for _, f := range reflect.VisibleFields(word.Type()) {
			column, _, _ := strings.Cut(f.Tag.Get("bun"), ",")
			if column == "" {
				column = f.Name
			}
			bytes := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Uint8 && f.Type != reflect.TypeFor[json.RawMessage]()
			if bytes || internalColumn.MatchString(strings.ToLower(column)) {
				conceal(word.FieldByIndex(f.Index), secret)
			}
		}
		all := map[string]any{"its JSON": word.Interface()}
		if recorded, ok := r.(history.Recorded); ok {
			all["history"], all["an event"] = recorded.Snapshot(), recorded.Event("me")
		}
		for what, shown := range all {
			text, err := json.Marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hidden {
				if strings.Contains(string(text), h) {
					t.Errorf("%T: %s shows what is sealed: %s", r, what, text)
				}
			}
		}
	}
}

// conceal puts a secret where text or bytes are kept.
func conceal(v reflect.Value, secret string) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(secret)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte(secret))
	}
}
