package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"sallyport/api"
	"sallyport/ingest/event"
)

// newTriggerPage asks for one thing after the other, each in the address:
// whose events, what kind, and then all that the kind takes.
func (p *pages) newTriggerPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "provider", "type", "automation")
	d := struct {
		Filters     filters
		Providers   []api.EventProvider
		Provider    *api.EventProvider
		Type        *api.EventType
		Form        []control
		Connects    []api.IntegrationView
		Automations []event.Automation
	}{Filters: f, Providers: p.EventProviders}
	var err error
	if d.Automations, err = p.Inbound.ListAutomations(ctx, me.Organization); err != nil {
		return err
	}
	if f.Get("provider") != "" {
		if d.Provider, err = p.eventProvider(f.Get("provider"), ""); err != nil {
			return err
		}
		if d.Type = eventProviderTypeOf(d.Provider, f.Get("type")); len(d.Provider.Types) == 1 {
			d.Type = &d.Provider.Types[0]
		}
		if d.Connects, err = p.connected(ctx, me, d.Provider.ID); err != nil {
			return err
		}
	}
	if d.Type != nil {
		d.Form = configForm(d.Type.Config, json.RawMessage("{}"))
	}
	return p.render(w, "trigger_new", "layout", view{Page: "triggers", Title: "New trigger", Me: me, Data: d})
}

// customSample is how a sender of one's own posts, for a shell. The secret
// stays out of it.
func customSample(url string, config json.RawMessage) string {
	var c struct {
		Verification struct {
			Scheme string `json:"scheme"`
			Header string `json:"header"`
			Time   string `json:"timestamp_header"`
		} `json:"verification"`
		IDHeader string `json:"id_header"`
	}
	_ = json.Unmarshal(config, &c) // it was checked when it was written
	v := c.Verification
	lines, headers := []string{`body='{"event":"test","title":"Is anybody there?"}'`}, []string{"Content-Type: application/json"}
	if c.IDHeader != "" && or(v.Scheme, "standard") != "standard" {
		headers = append(headers, c.IDHeader+": test-$(date +%s)")
	}
	switch or(v.Scheme, "standard") {
	case "standard":
		lines = append(lines, `id="msg_$(date +%s)"; time="$(date +%s)"`,
			`key="$(printf %s "${WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')"`,
			`signature="$(printf %s "$id.$time.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)"`)
		headers = append(headers, "webhook-id: $id", "webhook-timestamp: $time", "webhook-signature: v1,$signature")
	case "hmac":
		signed := "$body"
		if v.Time != "" {
			lines, signed = append(lines, `time="$(date +%s)"`), "$time.$body"
			headers = append(headers, v.Time+": $time")
		}
		lines = append(lines, fmt.Sprintf(`signature="$(printf %%s "%s" | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" | sed 's/^.*= *//')"`, signed))
		headers = append(headers, or(v.Header, "X-Webhook-Signature")+": sha256=$signature")
	case "header":
		bearer := ""
		if strings.EqualFold(v.Header, "Authorization") {
			bearer = "Bearer "
		}
		headers = append(headers, or(v.Header, "X-Webhook-Token")+": "+bearer+"$WEBHOOK_SECRET")
	}
	post := "curl -i " + url
	for _, h := range headers {
		post += " \\\n  -H \"" + h + "\""
	}
	return strings.Join(append(lines, post+" \\\n  --data-binary \"$body\""), "\n")
}
