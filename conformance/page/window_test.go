package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// window is a tab of a browser, and who sits before it.
type window struct {
	s      *story
	t      *testing.T
	ctx    context.Context
	who    string
	user   string // id
	root   string // selector of the part that is looked at; empty: the page
	faults *faults
}

// within is the same window, looking only at what the selector matches first.
func (w *window) within(selector string) *window {
	part := *w
	part.root = strings.TrimSpace(w.root + " " + selector)
	return &part
}

// person adds somebody of that role and signs him in, in a window of his own.
// Names are of one person each: the second owner of a house is "Olga Owner 2".
func (s *story) person(role string) *window {
	s.t.Helper()
	name := map[string]string{"owner": "Olga Owner", "admin": "Adam Admin", "member": "Mia Member"}[role]
	if s.people[role]++; s.people[role] > 1 {
		name += fmt.Sprint(" ", s.people[role])
	}
	return s.named(name, role)
}

// named is a person with a name.
func (s *story) named(name, role string) *window {
	s.t.Helper()
	var user struct {
		ID string `json:"id"`
	}
	s.must("POST", "/api/v1/users", args{"name": name, "role": role}, &user)
	w := s.open(role, nil)
	w.user = user.ID
	w.signIn()
	return w
}

// signIn opens a new sign-in link of the person.
func (w *window) signIn() {
	w.t.Helper()
	w.goTo(strings.TrimPrefix(w.s.link(w.user), w.s.URL))
	w.waitFor(`location.pathname === "/" && document.readyState === "complete"`, "the inbox after the sign-in")
}

// link makes a sign-in link.
func (s *story) link(user string) string {
	s.t.Helper()
	var link struct {
		URL string `json:"url"`
	}
	s.must("POST", "/api/v1/users/"+user+"/login-link", nil, &link)
	return link.URL
}

// beside is a second tab of the same browser.
func (w *window) beside() *window {
	w.t.Helper()
	other := w.s.open(w.who+"-beside", w)
	other.user = w.user
	return other
}

// anew is another browser of the same person, signed in.
func (w *window) anew() *window {
	w.t.Helper()
	other := w.s.open(w.who+"-anew", nil)
	other.user = w.user
	other.signIn()
	return other
}

// goTo opens a page and waits until it is loaded. A page that is just loading
// itself again may get in the way of the first attempts.
func (w *window) goTo(path string) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	err := chromedp.Do(ctx, chromedp.Navigate(w.s.URL+path))
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "net::ERR_ABORTED") {
		err = chromedp.Do(ctx, chromedp.Navigate(w.s.URL+path))
	}
	if err != nil {
		w.t.Fatalf("the window of %s does not get to %s: %v", w.who, path, err)
	}
}

// reload loads the page again.
func (w *window) reload() {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, chromedp.Reload()); err != nil {
		w.t.Fatalf("the window of %s does not reload: %v", w.who, err)
	}
}

// path is where the window is, with its query.
func (w *window) path() (path string) {
	w.t.Helper()
	w.eval(`location.pathname + location.search`, &path)
	return path
}

// try evaluates a script, waits for its promise if it is one, and reads its
// value into out.
func (w *window) try(js string, out any) error {
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	yes := true
	got, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: js, AwaitPromise: &yes, ReturnByValue: &yes, UserGesture: &yes})
	if err != nil {
		return err
	}
	if e := got.ExceptionDetails; e != nil {
		return fmt.Errorf("%s %s: %s", e.Text, e.Exception.Description, js)
	}
	if out == nil || len(got.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(got.Result.Value, out)
}

// eval evaluates a script that has to succeed.
func (w *window) eval(js string, out any) {
	w.t.Helper()
	if err := w.try(js, out); err != nil {
		w.t.Fatalf("in the window of %s: %v", w.who, err)
	}
}

// waitFor waits until a script is true; a page that is just being left is none.
func (w *window) waitFor(js, why string) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		var ok bool
		if err = w.try("!!("+js+")", &ok); err == nil && ok {
			return
		}
		if time.Now().After(end) || w.ctx.Err() != nil {
			w.t.Fatalf("the window of %s waited %v in vain for %s (%v)", w.who, patience, why, err)
		}
	}
}

// base is a script for what is looked at.
func (w *window) base() string {
	if w.root == "" {
		return "document.body"
	}
	return "document.querySelector(" + quote(w.root) + ")"
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always can
	}
	return string(raw)
}

// reads returns the text that is shown.
func (w *window) reads() (text string) {
	w.t.Helper()
	w.eval(w.base()+"?.innerText ?? ''", &text)
	return text
}

// contains is a script: is the text shown? Styles may have it in capitals.
func (w *window) contains(text string) string {
	return "(" + w.base() + "?.innerText ?? '').toLowerCase().includes(" + quote(strings.ToLower(text)) + ")"
}

// sees waits until each text is shown.
func (w *window) sees(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.waitFor(w.contains(text), fmt.Sprintf("the text %q %s", text, w.root))
	}
}

// misses waits until the text is not shown any more.
func (w *window) misses(text string) {
	w.t.Helper()
	w.waitFor("!"+w.contains(text), fmt.Sprintf("the text %q to be gone %s", text, w.root))
}

// visible is a script: the elements that match and are shown.
func (w *window) visible(selector string) string {
	return "[...(" + w.base() + "?.querySelectorAll(" + quote(selector) + ") ?? [])].filter((e) => e.checkVisibility({ visibilityProperty: true }))"
}

// shows waits until something that matches is shown.
func (w *window) shows(selector string) {
	w.t.Helper()
	w.waitFor(w.visible(selector)+".length > 0", selector+" to be shown "+w.root)
}

// hides waits until nothing that matches is shown.
func (w *window) hides(selector string) {
	w.t.Helper()
	w.waitFor(w.visible(selector)+".length === 0", selector+" to be hidden "+w.root)
}

// count counts what matches and is shown.
func (w *window) count(selector string) (n int) {
	w.t.Helper()
	w.eval(w.visible(selector)+".length", &n)
	return n
}

// click clicks the one button, link, summary or other control that has the
// accessible name, once it can be clicked.
func (w *window) click(name string) {
	w.t.Helper()
	w.clickWhen(fmt.Sprintf("a control named %q", name), func(ctx context.Context) (runtime.RemoteObjectID, error) { return w.control(ctx, name) })
}

// clickOn clicks the first shown element that matches.
func (w *window) clickOn(selector string) {
	w.t.Helper()
	w.clickWhen(selector, func(ctx context.Context) (runtime.RemoteObjectID, error) {
		return object(ctx, w.visible(selector)+"[0]")
	})
}

// clickWhen clicks what find finds, as soon as it lies open.
func (w *window) clickWhen(what string, find func(context.Context) (runtime.RemoteObjectID, error)) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end) && w.ctx.Err() == nil; time.Sleep(30 * time.Millisecond) {
		var ambiguous errAmbiguous
		if err = w.tryClick(find); err == nil {
			return
		} else if errors.As(err, &ambiguous) {
			break
		}
	}
	w.t.Fatalf("the window of %s cannot click %s %s: %v", w.who, what, w.root, err)
}

func (w *window) tryClick(find func(context.Context) (runtime.RemoteObjectID, error)) error {
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	id, err := find(ctx)
	if err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{ObjectID: id}); err != nil {
		return err
	}
	yes := true
	got, err := chromedp.Call(ctx, runtime.CallFunctionOn, runtime.CallFunctionOnParams{ObjectID: id, ReturnByValue: &yes, FunctionDeclaration: liesOpen})
	if err != nil {
		return err
	}
	var at []float64
	if json.Unmarshal(got.Result.Value, &at) != nil || len(at) != 2 {
		return fmt.Errorf("it cannot be clicked: %s", got.Result.Value)
	}
	return chromedp.Do(ctx, chromedp.MouseClickXY(at[0], at[1]))
}

// liesOpen returns the point of an element where a click would reach it, or
// why none would.
const liesOpen = `function () {
  if (document.readyState !== "complete") return "the page is still loading";
  if (this.disabled) return "disabled";
  for (const box of this.getClientRects()) {
    const x = box.x + box.width / 2, y = box.y + box.height / 2, top = document.elementFromPoint(x, y);
    if (top && (this.contains(top) || top.contains(this) || [...(this.labels ?? [])].some((l) => l.contains(top)))) return [x, y];
  }
  return "something else lies over it";
}`

// object evaluates a script that returns an element.
func object(ctx context.Context, js string) (runtime.RemoteObjectID, error) {
	got, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: js})
	if err != nil {
		return "", err
	}
	if got.Result.ObjectID == "" || got.ExceptionDetails != nil {
		return "", errors.New("there is none")
	}
	return got.Result.ObjectID, nil
}

// errAmbiguous is a name that several controls have; waiting does not help.
type errAmbiguous int

func (e errAmbiguous) Error() string { return fmt.Sprintf("there are %d; look within a part", int(e)) }

// control finds the control with the accessible name, as a screen reader does.
func (w *window) control(ctx context.Context, name string) (runtime.RemoteObjectID, error) {
	root, err := object(ctx, w.base())
	if err != nil {
		return "", err
	}
	tree, err := chromedp.Call(ctx, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{ObjectID: root, AccessibleName: name})
	if err != nil {
		return "", err
	}
	var found []*accessibility.Node
	for _, node := range tree.Nodes {
		if !node.Ignored && node.Role != nil && strings.Contains(controls, string(node.Role.Value)) {
			found = append(found, node)
		}
	}
	if len(found) > 1 {
		return "", errAmbiguous(len(found))
	}
	if len(found) == 0 {
		return "", errors.New("there is none")
	}
	resolved, err := chromedp.Call(ctx, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: found[0].BackendDOMNodeID})
	if err != nil {
		return "", err
	}
	return resolved.Object.ObjectID, nil
}

// controls are the roles, as JSON strings, of what can be clicked.
const controls = `"button" "link" "DisclosureTriangle" "checkbox" "radio" "switch" "tab" "menuitem" "combobox" "textbox" "searchbox" "spinbutton"`

// fill puts a value into the first shown field that matches, as a person who
// replaces what is there: a text is typed, a choice chosen.
func (w *window) fill(selector, value string) {
	w.t.Helper()
	w.waitFor(fmt.Sprintf("("+fillIn+")(%s[0], %s)", w.visible(selector), quote(value)), selector+" to be filled in "+w.root)
	var typed bool
	w.eval("document.activeElement.matches("+quote(texts)+")", &typed)
	switch {
	case typed && value == "":
		w.press("Delete")
	case typed:
		do(w, input.InsertText, input.InsertTextParams{Text: value})
	}
}

// texts are the fields that one types into.
const texts = "textarea, input:not([type]), input[type=text], input[type=search], input[type=url], input[type=password], input[type=number], input[type=email]"

// fillIn gives a field the focus, and its value unless that is typed; it is
// true once there is such a field.
const fillIn = `(field, value) => {
  if (!field || document.readyState !== "complete") return false; // the page's scripts want to know
  field.focus();
  if (field.matches("` + texts + `")) field.select();
  else {
    if (field.type === "checkbox") field.checked = value !== "";
    else field.value = value;
    for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  return true;
}`

// press presses keys one after the other: a character, or Enter, Tab,
// Shift+Tab, Escape, Space, Delete, Backspace, ArrowDown, ArrowUp, Home, End.
func (w *window) press(keys ...string) {
	w.t.Helper()
	known := map[string]string{
		"Enter": kb.Enter, "Tab": kb.Tab, "Escape": kb.Escape, "Space": " ", "Delete": kb.Delete, "Backspace": kb.Backspace,
		"ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "Home": kb.Home, "End": kb.End,
	}
	for _, key := range keys {
		plain, shifted := strings.CutPrefix(key, "Shift+")
		var options []chromedp.KeyOption
		if shifted {
			options = append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		if code, ok := known[plain]; ok {
			plain = code
		}
		ctx, stop := context.WithTimeout(w.ctx, patience)
		err := chromedp.Do(ctx, chromedp.KeyEvent(plain, options...))
		stop()
		if err != nil {
			w.t.Fatalf("the window of %s cannot press %s: %v", w.who, key, err)
		}
	}
}

// confirm says yes to the question that the page asks.
func (w *window) confirm() {
	w.t.Helper()
	page := *w
	page.root = ""
	page.clickOn("#confirm[open] #confirm-yes")
}
