package mcpserver

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// capabilities are those of a client that a server may have use for. What else
// it declares, experiments and extensions above all, can be of any size and is
// not kept.
type capabilities uint16

// The order is part of the id's format.
const (
	canElicit capabilities = 1 << iota
	canElicitForm
	canElicitURL
	canSample
	canSampleContext
	canSampleTools
	canRoots
	canRootsChange
)

// capabilitiesOf returns what is kept of what a client declared.
func capabilitiesOf(c *mcp.ClientCapabilities) (can capabilities) {
	if c == nil {
		return 0
	}
	if e := c.Elicitation; e != nil {
		can |= canElicit | canElicitForm.only(e.Form != nil) | canElicitURL.only(e.URL != nil)
	}
	if s := c.Sampling; s != nil { //nolint:staticcheck // deprecated in the other era
		can |= canSample | canSampleContext.only(s.Context != nil) | canSampleTools.only(s.Tools != nil) //nolint:staticcheck // as above
	}
	if r := c.RootsV2; r != nil { //nolint:staticcheck // as above
		can |= canRoots | canRootsChange.only(r.ListChanged)
	}
	return can
}

// only is c if it holds.
func (c capabilities) only(holds bool) capabilities {
	if holds {
		return c
	}
	return 0
}

// features are what a client with these can be asked. One that declares
// elicitation and no kind of it shows forms.
func (c capabilities) features() (f action.ClientFeatures) {
	for _, one := range []struct {
		of capabilities
		is action.ClientFeatures
	}{
		{canElicitForm, action.ClientElicitsForm},
		{canElicitURL, action.ClientElicitsURL},
		{canSample, action.ClientSamples},
		{canSampleContext, action.ClientSamplesContext},
		{canSampleTools, action.ClientSamplesTools},
		{canRoots, action.ClientListsRoots},
	} {
		if c.has(one.of) {
			f |= one.is
		}
	}
	if c.has(canElicit) && !c.has(canElicitURL) {
		f |= action.ClientElicitsForm
	}
	return f
}

// capabilitiesIn are those that a request of the stateless era declares, raw.
func capabilitiesIn(meta []byte) []byte { return member(meta, mcp.MetaKeyClientCapabilities) }

// featuresOf reads them from what a request of the stateless era declares.
func featuresOf(raw []byte) action.ClientFeatures {
	declared := func(of []byte, key string) bool { return isObject(member(of, key)) }
	elicitation, sampling := member(raw, "elicitation"), member(raw, "sampling")
	can := canElicit.only(isObject(elicitation)) | canElicitForm.only(declared(elicitation, "form")) | canElicitURL.only(declared(elicitation, "url")) |
		canSample.only(isObject(sampling)) | canSampleContext.only(declared(sampling, "context")) | canSampleTools.only(declared(sampling, "tools")) |
		canRoots.only(declared(raw, "roots"))
	return can.features()
}

func (c capabilities) has(one capabilities) bool { return c&one != 0 }

// forSDK returns them as the SDK has them.
func (c capabilities) forSDK() *mcp.ClientCapabilities {
	out := &mcp.ClientCapabilities{}
	if c.has(canElicit) {
		out.Elicitation = &mcp.ElicitationCapabilities{
			Form: ifSo[mcp.FormElicitationCapabilities](c.has(canElicitForm)),
			URL:  ifSo[mcp.URLElicitationCapabilities](c.has(canElicitURL)),
		}
	}
	if c.has(canSample) {
		out.Sampling = &mcp.SamplingCapabilities{ //nolint:staticcheck // as above
			Context: ifSo[mcp.SamplingContextCapabilities](c.has(canSampleContext)), //nolint:staticcheck // as above
			Tools:   ifSo[mcp.SamplingToolsCapabilities](c.has(canSampleTools)),     //nolint:staticcheck // as above
		}
	}
	if c.has(canRoots) {
		out.Roots.ListChanged = c.has(canRootsChange)                           //nolint:staticcheck // as above
		out.RootsV2 = &mcp.RootCapabilities{ListChanged: out.Roots.ListChanged} //nolint:staticcheck // as above
	}
	return out
}

// ifSo returns a T if it holds, and nil otherwise.
func ifSo[T any](holds bool) *T {
	if holds {
		return new(T)
	}
	return nil
}
