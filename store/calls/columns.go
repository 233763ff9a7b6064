package calls

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/store/database"
)

// InvocationColumn is a column of the invocations table and its field in the
// row.
type InvocationColumn struct {
	Name  string
	Flags columnFlags
	Field func(*InvocationRow) any // pointer to the field; nil if the row has none
}

// columnFlags say which statements use a column. Without any, it is read, covered by
// the digest and written by statements that name it.
type columnFlags uint8

const (
	OnBegin       columnFlags = 1 << iota // written by the statements that begin a call
	OnFinish                              // written by the statements that finish a call
	keepsPrevious                         // with onFinish: NULL does not replace a value
	writeOnly                             // not read into a row
	encrypted                             // read only with a whole record, and not covered by the digest
	mutable                               // may change after the end, so the digest does not cover it
)

// Any reports whether any of the flags is set.
func (f columnFlags) Any(other columnFlags) bool { return f&other != 0 }

// The statements and the digest take their columns from these lists.
var (
	beginColumns  = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnBegin) })
	finishColumns = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnFinish) })
	EndedColumns  = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnBegin | OnFinish) })
	DigestColumns = InvocationTable.where(func(f columnFlags) bool { return !f.Any(encrypted | mutable) })

	// Of an [action.Invocation] and its delivery, and of an [action.Record].
	publicColumns = InvocationTable.where(func(f columnFlags) bool { return !f.Any(writeOnly | encrypted) })
	recordColumns = InvocationTable.where(func(f columnFlags) bool { return !f.Any(writeOnly) })

	PublicColumnNames = publicColumns.Names()
	publicColumnList  = publicColumns.list()
	recordColumnList  = recordColumns.list()
)

// InvocationColumns is a list of columns of the invocations table.
type InvocationColumns []InvocationColumn

func (c InvocationColumns) where(match func(columnFlags) bool) InvocationColumns {
	return slices.DeleteFunc(slices.Clone(c), func(column InvocationColumn) bool { return !match(column.Flags) })
}

// Names returns the names of the columns.
func (c InvocationColumns) Names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

// list returns the names as a statement selects them.
func (c InvocationColumns) list() string { return strings.Join(c.Names(), ", ") }

// placeholders returns the placeholders of the values, numbered from 1.
func (c InvocationColumns) placeholders() string {
	marks := make([]string, len(c))
	for i := range c {
		marks[i] = "?" + strconv.Itoa(i+1)
	}
	return strings.Join(marks, ", ")
}

// placeholder returns the placeholder of a column.
func (c InvocationColumns) placeholder(name string) string {
	return "?" + strconv.Itoa(slices.Index(c.Names(), name)+1)
}

// assignments returns the SET list for the placeholders.
func (c InvocationColumns) assignments() string {
	list := make([]string, len(c))
	for i := range c {
		mark := "?" + strconv.Itoa(i+1)
		if c[i].Flags.Any(keepsPrevious) {
			mark = "coalesce(" + mark + ", " + c[i].Name + ")"
		}
		list[i] = c[i].Name + " = " + mark
	}
	return strings.Join(list, ", ")
}

// scan returns the scan targets in the row.
func (c InvocationColumns) scan(r *InvocationRow) []any {
	dest := make([]any, len(c))
	for i := range c {
		dest[i] = c[i].Field(r)
	}
	return dest
}

// Values returns the values of the row in the order of the placeholders.
func (c InvocationColumns) Values(r *InvocationRow) []any {
	values := make([]any, len(c))
	for i := range c {
		values[i] = columnValue(c[i].Field(r))
	}
	return values
}

// columnValue dereferences a field. It uses a type switch instead of reflection
// because it runs for every call.
func columnValue(field any) any {
	switch p := field.(type) {
	case *string:
		return *p
	case *database.NullString:
		return *p
	case *database.Timestamp:
		return *p
	case *[]byte:
		return *p
	case *int:
		return *p
	case *int64:
		return *p
	case **int64:
		if *p == nil {
			return nil
		}
		return **p
	}
	panic(fmt.Sprintf("no statement writes a %T", field))
}
