package store

import (
	"database/sql"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// TestInvocationColumnsAreThoseOfTheRow compares the list with the row's tags and with
// the tables of both databases.
func TestInvocationColumnsAreThoseOfTheRow(t *testing.T) {
	r := &calls.InvocationRow{}
	row, tagged := reflect.ValueOf(r).Elem(), map[string]any{}
	for i := 1; i < row.NumField(); i++ { // the first one is bun's
		name, _, _ := strings.Cut(row.Type().Field(i).Tag.Get("bun"), ",")
		tagged[name] = row.Field(i).Addr().Interface()
	}
	for _, c := range withFields() {
		if tagged[c.Name] != c.Field(r) {
			t.Errorf("%s is another field of the row", c.Name)
		}
		delete(tagged, c.Name)
	}
	if len(tagged) > 0 {
		t.Errorf("fields that are no columns: %v", tagged)
	}
	onBoth(t, func(t *testing.T, raw *sql.DB) {
		for _, table := range []string{"invocations", "all_calls"} {
			if d := cmp.Diff(slices.Sorted(slices.Values(columnsOf(t, raw, table))), slices.Sorted(slices.Values(calls.InvocationTable.Names()))); d != "" {
				t.Errorf("columns of %s (-table +row):\n%s", table, d)
			}
		}
	})
}

// withFields are the columns that a row has.
func withFields() calls.InvocationColumns {
	return slices.DeleteFunc(slices.Clone(calls.InvocationTable), func(c calls.InvocationColumn) bool { return c.Field == nil })
}

// TestInvocationColumnsAreWrittenAndRead fills in every field of a draft, a finish and
// a row: what newRow and finish set must be in their statements, and what a row holds
// must be in the invocation.
func TestInvocationColumnsAreWrittenAndRead(t *testing.T) {
	d, f, r := &action.Draft{}, &action.Finish{}, &calls.InvocationRow{}
	for _, v := range []any{d, f, r} {
		fill(t, reflect.ValueOf(v).Elem())
	}
	d.Status = action.StatusExecuting
	begun, err := calls.NewRow(d)
	if err != nil {
		t.Fatal(err)
	}
	finished := &calls.InvocationRow{}
	finished.Finish(f)
	for _, c := range withFields() {
		set := func(r *calls.InvocationRow) bool { return !reflect.ValueOf(c.Field(r)).Elem().IsZero() }
		if set(begun) && !c.Flags.Any(calls.OnBegin) {
			t.Errorf("newRow sets %s, and nothing writes it", c.Name)
		}
		if set(finished) != c.Flags.Any(calls.OnFinish) {
			t.Errorf("finish sets %s: %t; it is written: %t", c.Name, set(finished), c.Flags.Any(calls.OnFinish))
		}
	}
	inv, err := r.Invocation()
	if err != nil {
		t.Fatal(err)
	}
	for v, i := reflect.ValueOf(inv), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "ApprovalURL") {
			t.Errorf("of a full row, %s is %v", name, v.Field(i))
		}
	}
}

// fill sets every field to a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(1, 0)
		return
	case *database.Timestamp:
		p.Time = time.Unix(1, 0)
		return
	case *json.RawMessage:
		*p = json.RawMessage(`[{}]`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("bun") != "table:invocations,alias:i" {
				fill(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString(`[{}]`)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(1)
	default:
		t.Fatalf("a field is a %s", v.Type())
	}
}
