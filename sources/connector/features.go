package connector

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// clientCapabilities say what a server may ask. An empty object is a feature.
type clientCapabilities struct {
	Elicitation *elicitationCapability `json:"elicitation,omitempty"`
	Sampling    *samplingCapability    `json:"sampling,omitempty"`
	Roots       *struct{}              `json:"roots,omitempty"`
}

type elicitationCapability struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

type samplingCapability struct {
	Tools   *struct{} `json:"tools,omitempty"`
	Context *struct{} `json:"context,omitempty"`
}

// appendCapabilities says what may be asked in a request without session.
func appendCapabilities(b []byte, can action.ClientFeatures) []byte {
	var c clientCapabilities
	if can&(action.ClientElicitsForm|action.ClientElicitsURL) != 0 {
		c.Elicitation = &elicitationCapability{Form: capability(can, action.ClientElicitsForm), URL: capability(can, action.ClientElicitsURL)}
	}
	if can.Has(action.ClientSamples) {
		c.Sampling = &samplingCapability{Tools: capability(can, action.ClientSamplesTools), Context: capability(can, action.ClientSamplesContext)}
	}
	c.Roots = capability(can, action.ClientListsRoots)
	raw, err := json.Marshal(c)
	if err != nil {
		return append(b, "{}"...)
	}
	return append(b, raw...)
}

func capability(can, feature action.ClientFeatures) *struct{} {
	if !can.Has(feature) {
		return nil
	}
	return &struct{}{}
}

// sdkCapabilities says the same in a handshake.
func sdkCapabilities(can action.ClientFeatures) *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{}
	if err := json.Unmarshal(appendCapabilities(nil, can), c); err != nil {
		return c
	}
	if can.Has(action.ClientListsRoots) {
		c.RootsV2 = &mcp.RootCapabilities{} //nolint:staticcheck // servers of the older era ask for roots
	}
	return c
}
