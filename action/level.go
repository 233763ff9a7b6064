package action

// Level is how far the sessions of a group may go at a provider. The levels
// are those of an action's risk.
type Level int

// The levels, each of which includes those before it.
const (
	LevelNone       Level = iota // nothing
	LevelRead                    // actions that only read
	LevelWrite                   // and those that write
	LevelProduction              // and dangerous ones, each behind the required gate
)

// Valid reports whether l is one of the four levels.
func (l Level) Valid() bool { return LevelNone <= l && l <= LevelProduction }

// String returns the level's name.
func (l Level) String() string {
	switch l {
	case LevelNone:
		return "none"
	case LevelRead:
		return "read"
	case LevelWrite:
		return "write"
	case LevelProduction:
		return "production"
	}
	return "unknown"
}

// Level returns the level that an action of this risk needs. A risk that
// nobody knows needs the highest.
func (r Risk) Level() Level {
	switch r {
	case RiskRead:
		return LevelRead
	case RiskWrite:
		return LevelWrite
	case RiskDanger:
	}
	return LevelProduction
}
