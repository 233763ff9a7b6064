package dashboard

// Segment is a piece of text and how it is shown.
type Segment struct {
	Class string
	Text  string
}

func visible(text string) []Segment { return []Segment{{Text: text}} }
