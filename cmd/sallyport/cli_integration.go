package main

import (
	"sallyport/action"
)

// integrationRow is an integration as the API shows it.
type integrationRow struct {
	action.Integration
	Title  string `json:"provider_title"`
	Usable bool   `json:"usable"`
	Why    string `json:"unusable_reason"`
}
