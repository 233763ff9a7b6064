package page_test

import "testing"

// TestWorkspacePages makes a workspace and a variable of it; members only read.
func TestWorkspacePages(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	owner.goTo("/workspaces")
	owner.fill("[name=name]", "shop")
	owner.click("Create workspace")
	owner.waitFor(`location.pathname.startsWith("/workspaces/")`, "the page of the new workspace")
	owner.sees("shop", "Not set up", "This workspace has no repository", "No variables")
	at := owner.path()
	owner.click("Set variable")
	owner.fill("[data-form=variable] [name=name]", "DATABASE_URL")
	owner.fill("[data-form=variable] [name=value]", "postgres://shop")
	owner.click("Save")
	owner.sees("DATABASE_URL", "this workspace", "Olga Owner")
	owner.photo("workspace")
	owner.phone()
	owner.fits()
	owner.photo("workspace-phone")
	owner.desk()
	owner.goTo("/workspaces")
	owner.sees("shop", "not set up")
	owner.photo("workspaces")
	member := s.person("member")
	member.goTo(at)
	member.sees("DATABASE_URL")
	member.hides("[data-form=variable]")
}
