package page_test

import "testing"

// TestEveryPage looks at every page with something in it, as an owner and as a
// member.
func TestEveryPage(t *testing.T) {
	axe := axe(t)
	s := beginAlone(t)
	s.furnish(func(text string) string { return text })
	t.Run("for everybody", func(t *testing.T) { forEverybody(s.of(t), axe) })
	t.Run("for a member", func(t *testing.T) { forAMember(s.of(t)) })
}

// forEverybody: nobody is kept out by how a page is made, in light and in
// dark, and none scrolls sideways on a phone. The pictures are for people to
// look at.
func forEverybody(s *story, axe string) {
	owner := s.person("owner")
	look := func(name string) {
		owner.usable(axe)
		owner.photo("page-" + name + "-light")
		owner.dark()
		owner.usable(axe, "color-contrast")
		owner.photo("page-" + name + "-dark")
		owner.light()
		owner.phone()
		owner.usable(axe, "target-size")
		owner.fits()
		owner.photo("page-" + name + "-phone")
		owner.desk()
	}
	owner.walk(look)
	for _, status := range []string{"completed", "denied"} {
		owner.goTo("/invocations/" + s.invocations("status=" + status)[0].ID)
		look("invocations-" + status)
	}
}
