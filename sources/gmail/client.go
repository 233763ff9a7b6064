package gmail

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// get decodes the resource at a path of the user's mailbox into out.
func get(ctx context.Context, c *sources.Conn, query url.Values, out any, path ...string) error {
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method:     http.MethodGet,
		Path:       "/gmail/v1/users/me" + outbound.Path(path...),
		Query:      query,
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: true,
		Limited:    rateLimited,
	})
	if err != nil {
		return err
	}
	if resp.Status != http.StatusOK {
		return refusal(resp)
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return invalidResponse(c)
	}
	return nil
}

// invalidResponse is the error for a response that does not come from Gmail.
func invalidResponse(c *sources.Conn) error {
	return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "What answered at %s is not Gmail's API; check the base URL.", c.HTTP.Base().Host)
}

// profile is the address of the mailbox and its current history ID.
type profile struct {
	Address   string `json:"emailAddress"`
	HistoryID string `json:"historyId"` // exceeds the range of JSON numbers
}

func getProfile(ctx context.Context, c *sources.Conn) (p profile, err error) {
	if err := get(ctx, c, nil, &p, "profile"); err != nil {
		return profile{}, err
	}
	if p.Address == "" {
		return profile{}, invalidResponse(c)
	}
	return p, nil
}
