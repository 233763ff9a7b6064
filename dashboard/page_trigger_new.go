package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/api"
	"sallyport/ingest/event"
)

// newTriggerPage asks for one thing after the other, each in the address:
// whose events, what kind, and then all that the kind takes.
func (p *pageRequest) newTriggerPage() error {
	f := p.readFilters("provider", "type", "automation")
	d := struct {
		Filters     filters
		Providers   []api.EventProvider
		Provider    *api.EventProvider
		Type        *api.EventType
		Form        []control
		Connects    []api.IntegrationView
		Automations []event.Automation
	}{Filters: f, Providers: p.EventProviders, Automations: p.loadAutomations()}
	if id := f.Get("provider"); id != "" {
		provider, err := p.eventProvider(id, "")
		if err != nil {
			return err
		}
		d.Provider, d.Connects = provider, p.connected(provider.ID)
		if d.Type = eventProviderTypeOf(provider, f.Get("type")); len(provider.Types) == 1 {
			d.Type = &provider.Types[0]
		}
	}
	if d.Type != nil {
		d.Form = configForm(d.Type.Config, json.RawMessage("{}"))
	}
	return p.show("trigger_new", "triggers", "New trigger", d)
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
	lines, headers := []string{`body='{"event":"test","title":"Test event"}'`}, []string{"Content-Type: application/json"}
	if c.IDHeader != "" && cmp.Or(v.Scheme, "standard") != "standard" {
		headers = append(headers, c.IDHeader+": test-$(date +%s)")
	}
	switch cmp.Or(v.Scheme, "standard") {
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
		headers = append(headers, cmp.Or(v.Header, "X-Webhook-Signature")+": sha256=$signature")
	case "header":
		bearer := ""
		if strings.EqualFold(v.Header, "Authorization") {
			bearer = "Bearer "
		}
		headers = append(headers, cmp.Or(v.Header, "X-Webhook-Token")+": "+bearer+"$WEBHOOK_SECRET")
	}
	post := "curl -i " + url
	for _, h := range headers {
		post += " \\\n  -H \"" + h + "\""
	}
	return strings.Join(append(lines, post+" \\\n  --data-binary \"$body\""), "\n")
}
