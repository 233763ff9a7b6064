package token

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver/wire"
)

// Capabilities are the client capabilities that a server can use. Others, such as
// experimental ones and extensions, can be of any size and are not kept.
type Capabilities uint16

// The order is part of the session id's format.
const (
	canElicit Capabilities = 1 << iota
	canElicitForm
	canElicitURL
	canSample
	canSampleContext
	canSampleTools
	canRoots
	canRootsChange
)

// CapabilitiesOf returns the usable part of the capabilities that a client declared.
func CapabilitiesOf(c *mcp.ClientCapabilities) (can Capabilities) {
	if c == nil {
		return 0
	}
	if e := c.Elicitation; e != nil {
		can |= canElicit | canElicitForm.ifSet(e.Form != nil) | canElicitURL.ifSet(e.URL != nil)
	}
	if s := c.Sampling; s != nil { //nolint:staticcheck // deprecated in the stateless protocol
		can |= canSample | canSampleContext.ifSet(s.Context != nil) | canSampleTools.ifSet(s.Tools != nil) //nolint:staticcheck // as above
	}
	if r := c.RootsV2; r != nil { //nolint:staticcheck // as above
		can |= canRoots | canRootsChange.ifSet(r.ListChanged)
	}
	return can
}

// ifSet returns c if the condition holds, and zero otherwise.
func (c Capabilities) ifSet(holds bool) Capabilities {
	if holds {
		return c
	}
	return 0
}

// Features returns what a client with these capabilities can be asked. A client that
// declares elicitation without a mode supports forms.
func (c Capabilities) Features() (f action.ClientFeatures) {
	for _, one := range []struct {
		of Capabilities
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

// DeclaredCapabilities returns the raw capabilities that a stateless request
// declares in _meta.
func DeclaredCapabilities(meta []byte) []byte {
	return wire.Member(meta, mcp.MetaKeyClientCapabilities)
}

// Features returns what a client can be asked, from the raw capabilities of a
// stateless request.
func Features(raw []byte) action.ClientFeatures {
	declared := func(of []byte, key string) bool { return wire.IsObject(wire.Member(of, key)) }
	elicitation, sampling := wire.Member(raw, "elicitation"), wire.Member(raw, "sampling")
	can := canElicit.ifSet(wire.IsObject(elicitation)) | canElicitForm.ifSet(declared(elicitation, "form")) | canElicitURL.ifSet(declared(elicitation, "url")) |
		canSample.ifSet(wire.IsObject(sampling)) | canSampleContext.ifSet(declared(sampling, "context")) | canSampleTools.ifSet(declared(sampling, "tools")) |
		canRoots.ifSet(declared(raw, "roots"))
	return can.Features()
}

func (c Capabilities) has(one Capabilities) bool { return c&one != 0 }

// forSDK converts the capabilities to the SDK's type.
func (c Capabilities) forSDK() *mcp.ClientCapabilities {
	out := &mcp.ClientCapabilities{}
	if c.has(canElicit) {
		out.Elicitation = &mcp.ElicitationCapabilities{
			Form: pointerIf[mcp.FormElicitationCapabilities](c.has(canElicitForm)),
			URL:  pointerIf[mcp.URLElicitationCapabilities](c.has(canElicitURL)),
		}
	}
	if c.has(canSample) {
		out.Sampling = &mcp.SamplingCapabilities{ //nolint:staticcheck // as above
			Context: pointerIf[mcp.SamplingContextCapabilities](c.has(canSampleContext)), //nolint:staticcheck // as above
			Tools:   pointerIf[mcp.SamplingToolsCapabilities](c.has(canSampleTools)),     //nolint:staticcheck // as above
		}
	}
	if c.has(canRoots) {
		out.Roots.ListChanged = c.has(canRootsChange)                           //nolint:staticcheck // as above
		out.RootsV2 = &mcp.RootCapabilities{ListChanged: out.Roots.ListChanged} //nolint:staticcheck // as above
	}
	return out
}

// pointerIf returns a new T if the condition holds, and nil otherwise.
func pointerIf[T any](holds bool) *T {
	if holds {
		return new(T)
	}
	return nil
}
