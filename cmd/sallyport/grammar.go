package main

import (
	"cmp"
	"context"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"sallyport/cmd/sallyport/backup"
	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo"
	"sallyport/cmd/sallyport/doctor"
	"sallyport/cmd/sallyport/server"
)

// commandLine is the grammar with all commands.
type commandLine struct {
	serverCommands
	Version kong.VersionFlag `help:"Print the version." env:"-"`
	cli.Commands
}

// serverCommands can share a configuration file: with all of them in the grammar, a
// flag of another command in that file is not an error.
type serverCommands struct {
	Serve   server.ServeCommand   `cmd:"" help:"Run everything in one process."`
	Gateway server.GatewayCommand `cmd:"" help:"Run one of several gateway instances for agents and people."`
	Ingest  server.IngestCommand  `cmd:"" help:"Run the inbound instance: webhooks, polling, schedules, runs and cleanup."`
	Migrate server.MigrateCommand `cmd:"" help:"Apply database migrations, or show their status."`
	Backup  backup.Command        `cmd:"" help:"Back up the data folder of a running gateway."`
	Restore gatewayRestore        `cmd:"" help:"Restore a backup to a data folder and verify it."`
	Doctor  doctor.Command        `cmd:"" help:"Check configuration, database, keys, Valkey and connectors."`
	Demo    demo.Command          `cmd:"" help:"Run a demo gateway with a built-in upstream."`
}

// grammar returns the grammar for args: the one client command that they name, or all
// server commands. Building all commands takes longer than most commands run.
func grammar(args []string) any {
	all := &commandLine{Commands: *cli.New()}
	if len(args) == 0 {
		return all
	}
	if _, ok := commandNamed(reflect.TypeFor[serverCommands](), args[0]); ok {
		return &struct {
			serverCommands
			Version kong.VersionFlag `help:"Print the version." env:"-"`
		}{}
	}
	command, ok := commandNamed(reflect.TypeFor[cli.Commands](), args[0])
	if !ok {
		return all
	}
	flag, _ := reflect.TypeFor[commandLine]().FieldByName("Version")
	one := reflect.New(reflect.StructOf([]reflect.StructField{command, {Name: flag.Name, Type: flag.Type, Tag: flag.Tag}}))
	one.Elem().Field(0).Set(reflect.ValueOf(&all.Commands).Elem().FieldByIndex(command.Index))
	return one.Interface()
}

// commandNamed returns the field of a command, by kong's name of it.
func commandNamed(commands reflect.Type, name string) (command reflect.StructField, ok bool) {
	return commands.FieldByNameFunc(func(field string) bool {
		f, _ := commands.FieldByName(field)
		return cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) == name
	})
}

// gatewayRestore joins the restore command with the server, which verifies the rows.
type gatewayRestore struct{ backup.RestoreCommand }

// Run restores the backup.
func (c *gatewayRestore) Run(ctx context.Context, std *command.Streams) error {
	return c.RunWith(ctx, std, server.VerifyRestored)
}
