// Package page_test looks at the pages as people do: in a real Chromium, over
// a real gateway process, with agents that wait for an answer.
//
// A story is a test that begins a [story]. All stories that [begin] share one
// gateway, one organization and one upstream, so a story looks only at what it
// made (its session, its call), never at how many there are in all; one that
// needs an empty house begins with [beginAlone], which costs seconds. This is
// a whole one:
//
//	func TestAWriteIsApproved(t *testing.T) {
//		s := begin(t)
//		owner := s.person("owner")                       // signed in, in a window of its own, at the inbox
//		agent := s.agent("Fix the login page")           // a session, and an MCP client that speaks as it
//		call := agent.call("demo_write", args{"text": "milk"})
//		card := owner.within("#inv-" + agent.held())     // waits until the call is held
//		card.click("Approve")                            // by accessible name: a button, a link, a summary
//		if got := call.text(); got != "wrote milk" {     // the answer, as soon as it comes
//			t.Errorf("the agent was told %q", got)
//		}
//		card.sees("Approved by")                         // waits up to a minute
//		owner.photo("approved")                          // artifacts/approved.png, the full page
//	}
//
// A window also has goTo(path), clickOn(selector), fill(selector, value),
// press(keys…), reads(), misses(text), shows(selector), hides(selector),
// waitFor(js, why), eval(js, &out), confirm(), phone(), dark(), light(),
// beside() (a second tab of the same person) and anew() (a second browser of
// the same person). The API is s.must(method, path, body, &out) with the
// administrator's key and s.as(key) with another; roles are owner, admin and
// member; the upstream has demo_read, demo_write and demo_wipe.
//
// Every window fails its story at the end on an error in the console, an
// exception, a violation of the content security policy, a dialog of the
// browser, an answer of 500 and more, an asset that is missing, or a request
// to somewhere else. A story that failed says what each window showed and
// leaves a picture of it, artifacts/failed-….png.
//
// Pictures are written to the folder artifacts of the repository, or the one
// that SALLYPORT_ARTIFACTS names. SALLYPORT_BINARY names a command that was
// built already, to be looked at in place of this tree's.
package page_test
