package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// invocationColumn is a column of the table of invocations, and its field in the row.
type invocationColumn struct {
	name  string
	flags columnFlags
	field func(*invocationRow) any // a pointer to it; nil: the row has none
}

// columnFlags say which statements use a column. Without any, it is read, covered by
// the digest and written by statements that name it.
type columnFlags uint8

const (
	onBegin   columnFlags = 1 << iota // written by the statements that begin a call
	onFinish                          // written by the statements that finish a call
	keepsOld                          // with onFinish: NULL does not replace a value
	writeOnly                         // not read into a row
	encrypted                         // read only with a whole record, and not covered by the digest
	mutable                           // may change after the end, so the digest does not cover it
)

func (f columnFlags) any(of columnFlags) bool { return f&of != 0 }

// The statements and the digest take their columns from these lists.
var (
	beginColumns  = invocationTable.where(func(f columnFlags) bool { return f.any(onBegin) })
	finishColumns = invocationTable.where(func(f columnFlags) bool { return f.any(onFinish) })
	endedColumns  = invocationTable.where(func(f columnFlags) bool { return f.any(onBegin | onFinish) })
	digestColumns = invocationTable.where(func(f columnFlags) bool { return !f.any(encrypted | mutable) })

	// Of an [action.Invocation] and its delivery, and of an [action.Record].
	shownColumns = invocationTable.where(func(f columnFlags) bool { return !f.any(writeOnly | encrypted) })
	keptColumns  = invocationTable.where(func(f columnFlags) bool { return !f.any(writeOnly) })

	shown     = shownColumns.names()
	shownList = shownColumns.list()
	keptList  = keptColumns.list()
)

type invocationColumns []invocationColumn

func (c invocationColumns) where(match func(columnFlags) bool) invocationColumns {
	return slices.DeleteFunc(slices.Clone(c), func(column invocationColumn) bool { return !match(column.flags) })
}

func (c invocationColumns) names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].name
	}
	return names
}

// list is their names as a statement selects them.
func (c invocationColumns) list() string { return strings.Join(c.names(), ", ") }

// placeholders of their values, of which the first has number 1.
func (c invocationColumns) placeholders() string {
	marks := make([]string, len(c))
	for i := range c {
		marks[i] = "?" + strconv.Itoa(i+1)
	}
	return strings.Join(marks, ", ")
}

// placeholder of one of them.
func (c invocationColumns) placeholder(name string) string {
	return "?" + strconv.Itoa(slices.Index(c.names(), name)+1)
}

// assignments set them to the values of placeholders.
func (c invocationColumns) assignments() string {
	list := make([]string, len(c))
	for i := range c {
		mark := "?" + strconv.Itoa(i+1)
		if c[i].flags.any(keepsOld) {
			mark = "coalesce(" + mark + ", " + c[i].name + ")"
		}
		list[i] = c[i].name + " = " + mark
	}
	return strings.Join(list, ", ")
}

// scan returns where they are read to.
func (c invocationColumns) scan(r *invocationRow) []any {
	dest := make([]any, len(c))
	for i := range c {
		dest[i] = c[i].field(r)
	}
	return dest
}

// values of the row, in the order of placeholders.
func (c invocationColumns) values(r *invocationRow) []any {
	values := make([]any, len(c))
	for i := range c {
		values[i] = columnValue(c[i].field(r))
	}
	return values
}

// columnValue is what a field points to. It uses no reflection, because every call
// passes through it.
func columnValue(field any) any {
	switch p := field.(type) {
	case *string:
		return *p
	case *opt:
		return *p
	case *stamp:
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
