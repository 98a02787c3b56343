"""Names of tools under six namings: natural, prefixed, camelCase, MCP, opaque, and foreign words.

A family names a tool by its role, ``ci.log``: the group of the tool, and the most common of its names. ``NATURAL`` has
other names of the same tool from frameworks and servers of 2025 and 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

NAMINGS = ("natural", "prefixed", "camel", "mcp", "opaque", "foreign")

SERVERS = {
    "fs": "filesystem files disk",
    "sh": "shell terminal sandbox",
    "ci": "github circleci buildkite",
    "web": "browser playwright chrome",
    "net": "http fetcher web",
    "find": "tavily exa brave",
    "db": "postgres snowflake duckdb",
    "ops": "kubernetes cluster cloud",
    "office": "gsuite sheets notion",
    "crm": "zendesk hubspot support",
    "shop": "shopify store commerce",
    "home": "homeassistant house",
    "game": "arcade dungeon env",
    "mind": "memory notes brain",
    "team": "crew swarm agents",
    "user": "human operator chat",
    "voice": "telephony twilio call",
    "trade": "broker exchange alpaca",
    "pay": "stripe payments adyen",
    "robot": "ros arm robot",
    "mcp": "gateway hub registry",
}

NATURAL = {
    "fs.read_file": "read_file view Read get_file_contents readTextFile",
    "fs.write_file": "write_file create_file Write save_file",
    "fs.edit_file": "edit_file str_replace_based_edit_tool Edit replace_in_file",
    "fs.apply_patch": "apply_patch apply_diff patch",
    "fs.list_directory": "list_directory list_dir LS glob_files",
    "fs.grep": "grep search_in_files ripgrep Grep",
    "sh.bash": "bash run_shell_command execute_bash run_in_terminal Bash",
    "sh.run_tests": "run_tests run_test_suite test_runner",
    "ci.get_run": "get_run get_workflow_run get_pipeline build_info",
    "ci.get_run_log": "get_run_log get_job_logs download_log job_log",
    "ci.get_status": "get_status get_deployment_status check_status status",
    "web.open_page": "open_page browser_navigate goto visit",
    "web.click": "click browser_click click_element left_click",
    "web.fill": "fill browser_type type_text input_text",
    "web.read_page": "read_page browser_snapshot get_page_text extract_content",
    "web.scroll": "scroll browser_scroll scroll_page",
    "web.go_back": "go_back browser_navigate_back back",
    "web.close_tab": "close_tab browser_tab_close close_page",
    "web.screenshot": "screenshot browser_take_screenshot capture",
    "web.press_key": "press_key browser_press_key key",
    "net.fetch": "fetch web_fetch http_request get_url",
    "find.search": "search web_search search_web tavily_search",
    "find.search_docs": "search_docs query_knowledge_base retrieve rag_search",
    "db.query": "query run_sql execute_query read_query",
    "db.list_tables": "list_tables show_tables",
    "db.describe_table": "describe_table get_table_schema",
    "ops.list_pods": "list_pods kubectl_get get_pods pods_list",
    "ops.get_logs": "get_logs pod_logs tail_log read_logs",
    "ops.apply": "apply kubectl_apply terraform_apply deploy",
    "ops.check_health": "check_health health_check ping_service healthz",
    "office.set_cell": "set_cell update_cell write_cell sheets_update_values",
    "office.get_range": "get_range read_range sheets_get_values",
    "office.list_mail": "list_mail get_unread search_mail list_messages",
    "crm.get_customer": "get_customer find_user_id lookup_account get_user_details",
    "crm.create_ticket": "create_ticket create_issue open_case",
    "crm.list_tickets": "list_tickets list_issues search_tickets",
    "crm.get_approval": "get_approval approval_status get_review_state",
    "shop.place_order": "place_order create_order checkout",
    "shop.get_price": "get_price price_of lookup_price get_quote",
    "shop.get_cart": "get_cart view_cart show_cart",
    "home.set_light": "set_light light_set turn_light",
    "home.get_state": "get_state read_sensor get_entity",
    "game.move": "move go walk",
    "game.look": "look observe get_observation",
    "mind.save_memory": "save_memory add_memory remember store_fact",
    "mind.search_memory": "search_memory recall memory_query",
    "mind.think": "think sequential_thinking scratchpad",
    "mind.write_todos": "write_todos TodoWrite update_plan",
    "mind.read_todos": "read_todos TodoRead get_plan",
    "team.delegate": "delegate Task run_subagent ask_agent",
    "ci.start_run": "rerun_workflow retry_job trigger_build start_run",
    "crm.get_messages": "get_messages read_chat fetch_conversation",
    "crm.send_message": "send_message reply_to_customer post_message",
    "crm.transfer_to_human": "transfer_to_human_agents escalate hand_over",
    "db.export_report": "export_report create_export start_export",
    "find.get_document": "get_document fetch_document read_source",
    "game.attack": "attack fight hit",
    "home.set_temperature": "set_temperature climate_set set_thermostat",
    "mcp.open_server": "connect_server reconnect_server mcp_connect",
    "office.send_mail": "send_mail send_email gmail_send",
    "ops.confirm_alert": "acknowledge_alert ack_incident",
    "ops.get_metric": "get_metric query_prometheus get_error_rate",
    "ops.restart_service": "restart_service rollout_restart restart",
    "pay.check_code": "verify_otp confirm_code check_code",
    "pay.create_payment": "create_payment create_payment_intent charge_customer",
    "pay.get_payment": "get_payment retrieve_payment payment_status",
    "pay.send_code": "send_otp request_code send_code",
    "robot.grasp": "grasp close_gripper pick_up",
    "robot.place": "place release put_down",
    "shop.get_order": "get_order order_details get_order_details",
    "shop.use_coupon": "apply_coupon redeem_code apply_promo",
    "sh.wait": "wait sleep pause",
    "team.finish_task": "attempt_completion finish submit_task",
    "team.get_task": "get_task task_status poll_agent",
    "team.send_message": "send_message message_agent post_to_agent",
    "trade.get_price": "get_quote ticker last_price",
    "trade.place_order": "place_order submit_order create_order",
    "voice.listen": "listen get_transcript gather_input",
    "voice.press_key": "send_dtmf press_digit press_key",
    "voice.say": "say speak play_prompt",
    "user.ask_user": "ask_user AskUserQuestion request_input ask_human",
}

FOREIGN = {  # French, Polish, Turkish
    "alert": "alerte alarm uyari",
    "apply": "appliquer zastosuj uygula",
    "approval": "approbation zgoda onay",
    "ask": "demander zapytaj sor",
    "attack": "attaquer atakuj saldir",
    "back": "retour wstecz geri",
    "bash": "terminal powloka kabuk",
    "batch": "lot partia parti",
    "billing": "facturation rozliczenia fatura",
    "calendar": "agenda kalendarz takvim",
    "cart": "panier koszyk sepet",
    "cell": "cellule komorka hucre",
    "charge": "debiter obciaz tahsil",
    "check": "verifier sprawdz denetle",
    "click": "cliquer kliknij tikla",
    "close": "fermer zamknij kapat",
    "code": "code_secret kod sifre",
    "confirm": "confirmer potwierdz onayla",
    "coupon": "bon kupon indirim",
    "craft": "fabriquer wytworz uret",
    "create": "creer utworz olustur",
    "customer": "client klient musteri",
    "delegate": "deleguer zlec devret",
    "describe": "decrire opisz tanimla",
    "directory": "dossier katalog dizin",
    "docs": "documents dokumenty belgeler",
    "document": "document dokument belge",
    "edit": "modifier edytuj duzenle",
    "export": "exporter eksportuj disa_aktar",
    "fetch": "telecharger pobierz getir",
    "file": "fichier plik dosya",
    "fill": "remplir wypelnij doldur",
    "finish": "terminer zakoncz bitir",
    "flag": "drapeau flaga bayrak",
    "get": "obtenir wez al",
    "go": "aller idz git",
    "grasp": "saisir chwyc kavra",
    "grep": "fouiller przeszukaj tara",
    "health": "sante zdrowie saglik",
    "human": "humain czlowiek insan",
    "key": "touche klawisz tus",
    "light": "lumiere swiatlo isik",
    "list": "lister wypisz listele",
    "listen": "ecouter sluchaj dinle",
    "log": "journal dziennik gunluk",
    "logs": "journaux dzienniki gunlukler",
    "look": "regarder patrz bak",
    "mail": "courrier poczta posta",
    "memory": "memoire pamiec bellek",
    "message": "message_recu wiadomosc ileti",
    "messages": "messages_recus wiadomosci iletiler",
    "metric": "mesure miara olcum",
    "migrate": "migrer migruj tasi",
    "move": "deplacer rusz yuru",
    "open": "ouvrir otworz ac",
    "order": "commande zamowienie siparis",
    "page": "page_web strona sayfa",
    "patch": "rustine latka yama",
    "payment": "paiement platnosc odeme",
    "place": "passer zloz ver",
    "pods": "capsules kapsuly kapsuller",
    "policy": "regle regula kural",
    "press": "appuyer nacisnij bas",
    "price": "prix cena fiyat",
    "query": "interroger zapytanie sorgu",
    "range": "plage zakres aralik",
    "read": "lire czytaj oku",
    "receive": "recevoir odbierz teslim_al",
    "redo": "refaire ponow yinele",
    "refunds": "remboursements zwroty iadeler",
    "report": "rapport raport rapor",
    "restart": "redemarrer restartuj yeniden_baslat",
    "reviewer": "relecteur recenzent denetci",
    "run": "executer uruchom calistir",
    "save": "enregistrer zapisz kaydet",
    "say": "dire powiedz soyle",
    "screenshot": "capture zrzut ekran_goruntusu",
    "scroll": "defiler przewin kaydir",
    "search": "chercher szukaj ara",
    "send": "envoyer wyslij gonder",
    "server": "serveur serwer sunucu",
    "service": "service usluga servis",
    "set": "regler ustaw ayarla",
    "start": "lancer rozpocznij baslat",
    "state": "etat stan durum",
    "status": "statut status_zadania hal",
    "tab": "onglet karta sekme",
    "table": "table tabela tablo",
    "tables": "tables tabele tablolar",
    "task": "tache zadanie gorev",
    "temperature": "temperature temperatura sicaklik",
    "tests": "essais testy testler",
    "think": "reflechir mysl dusun",
    "ticket": "billet zgloszenie bilet",
    "tickets": "billets zgloszenia biletler",
    "to": "vers do a",
    "todos": "taches zadania yapilacaklar",
    "tools": "outils narzedzia araclar",
    "transfer": "transferer przekaz aktar",
    "triage": "tri selekcja ayiklama",
    "undo": "annuler cofnij geri_al",
    "use": "utiliser uzyj kullan",
    "user": "utilisateur uzytkownik kullanici",
    "wait": "attendre czekaj bekle",
    "write": "ecrire pisz yaz",
    "writer": "auteur autor yazar",
}


class Names:
    """The names of the tools of one run; a role keeps its name."""

    def __init__(self, naming: str, rng: random.Random) -> None:
        self.naming, self.rng = naming, rng
        self.language = rng.randrange(3)
        self.glue = rng.choice(("mcp__{}__{}", "mcp_{}_{}", "{}.{}", "mcp__{}-mcp__{}"))
        self.servers: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def tool(self, role: str) -> str:
        """Return the name of the tool with this role."""
        if role not in self.names:
            free = [name for name in self._names(role) if name not in self.names.values()]
            self.names[role] = self.rng.choice(free or [role.replace(".", "_")])
        return self.names[role]

    def _names(self, role: str) -> list[str]:
        group, _, common = role.partition(".")
        if self.naming == "opaque":
            return [f"f{17 + 8 * len(self.names) + self.rng.randrange(7)}"]
        if self.naming == "foreign":
            return ["_".join(FOREIGN[word].split()[self.language] for word in common.split("_"))]
        natural = NATURAL.get(role, common).split()
        server = self.servers.setdefault(group, self.rng.choice(SERVERS[group].split()))
        if self.naming == "prefixed":
            return [f"{server}__{name}" for name in natural]
        if self.naming == "camel":
            return [camel(name) for name in natural]
        if self.naming == "mcp":
            return [self.glue.format(server, name) for name in natural]
        return natural


def camel(name: str) -> str:
    """Write a name in camelCase."""
    first, *rest = re.split(r"[_-]", name)
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in rest)
