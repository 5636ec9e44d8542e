"""Spanish inflection, compared with the paradigms of the grammar books."""

from __future__ import annotations

import pytest
from generator.spanish import PERSONS, Verb, attach, before_noun, feminine, plural

TENSES = (
    "present",
    "preterite",
    "imperfect",
    "future",
    "conditional",
    "subjunctive",
    "past_subjunctive",
)

pytestmark = pytest.mark.long

# A line per tense, in the order of TENSES; yo, tú, él, nosotros, vosotros, ellos.
PARADIGMS = {
    "hablar": """
        hablo hablas habla hablamos habláis hablan
        hablé hablaste habló hablamos hablasteis hablaron
        hablaba hablabas hablaba hablábamos hablabais hablaban
        hablaré hablarás hablará hablaremos hablaréis hablarán
        hablaría hablarías hablaría hablaríamos hablaríais hablarían
        hable hables hable hablemos habléis hablen
        hablara hablaras hablara habláramos hablarais hablaran
    """,
    "comer": """
        como comes come comemos coméis comen
        comí comiste comió comimos comisteis comieron
        comía comías comía comíamos comíais comían
        comeré comerás comerá comeremos comeréis comerán
        comería comerías comería comeríamos comeríais comerían
        coma comas coma comamos comáis coman
        comiera comieras comiera comiéramos comierais comieran
    """,
    "vivir": """
        vivo vives vive vivimos vivís viven
        viví viviste vivió vivimos vivisteis vivieron
        vivía vivías vivía vivíamos vivíais vivían
        viviré vivirás vivirá viviremos viviréis vivirán
        viviría vivirías viviría viviríamos viviríais vivirían
        viva vivas viva vivamos viváis vivan
        viviera vivieras viviera viviéramos vivierais vivieran
    """,
    "ser": """
        soy eres es somos sois son
        fui fuiste fue fuimos fuisteis fueron
        era eras era éramos erais eran
        seré serás será seremos seréis serán
        sería serías sería seríamos seríais serían
        sea seas sea seamos seáis sean
        fuera fueras fuera fuéramos fuerais fueran
    """,
    "ir": """
        voy vas va vamos vais van
        fui fuiste fue fuimos fuisteis fueron
        iba ibas iba íbamos ibais iban
        iré irás irá iremos iréis irán
        iría irías iría iríamos iríais irían
        vaya vayas vaya vayamos vayáis vayan
        fuera fueras fuera fuéramos fuerais fueran
    """,
    "estar": """
        estoy estás está estamos estáis están
        estuve estuviste estuvo estuvimos estuvisteis estuvieron
        estaba estabas estaba estábamos estabais estaban
        estaré estarás estará estaremos estaréis estarán
        estaría estarías estaría estaríamos estaríais estarían
        esté estés esté estemos estéis estén
        estuviera estuvieras estuviera estuviéramos estuvierais estuvieran
    """,
    "haber": """
        he has ha hemos habéis han
        hube hubiste hubo hubimos hubisteis hubieron
        había habías había habíamos habíais habían
        habré habrás habrá habremos habréis habrán
        habría habrías habría habríamos habríais habrían
        haya hayas haya hayamos hayáis hayan
        hubiera hubieras hubiera hubiéramos hubierais hubieran
    """,
    "tener": """
        tengo tienes tiene tenemos tenéis tienen
        tuve tuviste tuvo tuvimos tuvisteis tuvieron
        tenía tenías tenía teníamos teníais tenían
        tendré tendrás tendrá tendremos tendréis tendrán
        tendría tendrías tendría tendríamos tendríais tendrían
        tenga tengas tenga tengamos tengáis tengan
        tuviera tuvieras tuviera tuviéramos tuvierais tuvieran
    """,
    "mantener": """
        mantengo mantienes mantiene mantenemos mantenéis mantienen
        mantuve mantuviste mantuvo mantuvimos mantuvisteis mantuvieron
        mantenía mantenías mantenía manteníamos manteníais mantenían
        mantendré mantendrás mantendrá mantendremos mantendréis mantendrán
        mantendría mantendrías mantendría mantendríamos mantendríais mantendrían
        mantenga mantengas mantenga mantengamos mantengáis mantengan
        mantuviera mantuvieras mantuviera mantuviéramos mantuvierais mantuvieran
    """,
    "hacer": """
        hago haces hace hacemos hacéis hacen
        hice hiciste hizo hicimos hicisteis hicieron
        hacía hacías hacía hacíamos hacíais hacían
        haré harás hará haremos haréis harán
        haría harías haría haríamos haríais harían
        haga hagas haga hagamos hagáis hagan
        hiciera hicieras hiciera hiciéramos hicierais hicieran
    """,
    "decir": """
        digo dices dice decimos decís dicen
        dije dijiste dijo dijimos dijisteis dijeron
        decía decías decía decíamos decíais decían
        diré dirás dirá diremos diréis dirán
        diría dirías diría diríamos diríais dirían
        diga digas diga digamos digáis digan
        dijera dijeras dijera dijéramos dijerais dijeran
    """,
    "poner": """
        pongo pones pone ponemos ponéis ponen
        puse pusiste puso pusimos pusisteis pusieron
        ponía ponías ponía poníamos poníais ponían
        pondré pondrás pondrá pondremos pondréis pondrán
        pondría pondrías pondría pondríamos pondríais pondrían
        ponga pongas ponga pongamos pongáis pongan
        pusiera pusieras pusiera pusiéramos pusierais pusieran
    """,
    "venir": """
        vengo vienes viene venimos venís vienen
        vine viniste vino vinimos vinisteis vinieron
        venía venías venía veníamos veníais venían
        vendré vendrás vendrá vendremos vendréis vendrán
        vendría vendrías vendría vendríamos vendríais vendrían
        venga vengas venga vengamos vengáis vengan
        viniera vinieras viniera viniéramos vinierais vinieran
    """,
    "poder": """
        puedo puedes puede podemos podéis pueden
        pude pudiste pudo pudimos pudisteis pudieron
        podía podías podía podíamos podíais podían
        podré podrás podrá podremos podréis podrán
        podría podrías podría podríamos podríais podrían
        pueda puedas pueda podamos podáis puedan
        pudiera pudieras pudiera pudiéramos pudierais pudieran
    """,
    "querer": """
        quiero quieres quiere queremos queréis quieren
        quise quisiste quiso quisimos quisisteis quisieron
        quería querías quería queríamos queríais querían
        querré querrás querrá querremos querréis querrán
        querría querrías querría querríamos querríais querrían
        quiera quieras quiera queramos queráis quieran
        quisiera quisieras quisiera quisiéramos quisierais quisieran
    """,
    "saber": """
        sé sabes sabe sabemos sabéis saben
        supe supiste supo supimos supisteis supieron
        sabía sabías sabía sabíamos sabíais sabían
        sabré sabrás sabrá sabremos sabréis sabrán
        sabría sabrías sabría sabríamos sabríais sabrían
        sepa sepas sepa sepamos sepáis sepan
        supiera supieras supiera supiéramos supierais supieran
    """,
    "dar": """
        doy das da damos dais dan
        di diste dio dimos disteis dieron
        daba dabas daba dábamos dabais daban
        daré darás dará daremos daréis darán
        daría darías daría daríamos daríais darían
        dé des dé demos deis den
        diera dieras diera diéramos dierais dieran
    """,
    "ver": """
        veo ves ve vemos veis ven
        vi viste vio vimos visteis vieron
        veía veías veía veíamos veíais veían
        veré verás verá veremos veréis verán
        vería verías vería veríamos veríais verían
        vea veas vea veamos veáis vean
        viera vieras viera viéramos vierais vieran
    """,
    "oír": """
        oigo oyes oye oímos oís oyen
        oí oíste oyó oímos oísteis oyeron
        oía oías oía oíamos oíais oían
        oiré oirás oirá oiremos oiréis oirán
        oiría oirías oiría oiríamos oiríais oirían
        oiga oigas oiga oigamos oigáis oigan
        oyera oyeras oyera oyéramos oyerais oyeran
    """,
    "reír": """
        río ríes ríe reímos reís ríen
        reí reíste rio reímos reísteis rieron
        reía reías reía reíamos reíais reían
        reiré reirás reirá reiremos reiréis reirán
        reiría reirías reiría reiríamos reiríais reirían
        ría rías ría riamos riais rían
        riera rieras riera riéramos rierais rieran
    """,
    "sonreír": """
        sonrío sonríes sonríe sonreímos sonreís sonríen
        sonreí sonreíste sonrió sonreímos sonreísteis sonrieron
        sonreía sonreías sonreía sonreíamos sonreíais sonreían
        sonreiré sonreirás sonreirá sonreiremos sonreiréis sonreirán
        sonreiría sonreirías sonreiría sonreiríamos sonreiríais sonreirían
        sonría sonrías sonría sonriamos sonriáis sonrían
        sonriera sonrieras sonriera sonriéramos sonrierais sonrieran
    """,
    "traer": """
        traigo traes trae traemos traéis traen
        traje trajiste trajo trajimos trajisteis trajeron
        traía traías traía traíamos traíais traían
        traeré traerás traerá traeremos traeréis traerán
        traería traerías traería traeríamos traeríais traerían
        traiga traigas traiga traigamos traigáis traigan
        trajera trajeras trajera trajéramos trajerais trajeran
    """,
    "caer": """
        caigo caes cae caemos caéis caen
        caí caíste cayó caímos caísteis cayeron
        caía caías caía caíamos caíais caían
        caeré caerás caerá caeremos caeréis caerán
        caería caerías caería caeríamos caeríais caerían
        caiga caigas caiga caigamos caigáis caigan
        cayera cayeras cayera cayéramos cayerais cayeran
    """,
    "salir": """
        salgo sales sale salimos salís salen
        salí saliste salió salimos salisteis salieron
        salía salías salía salíamos salíais salían
        saldré saldrás saldrá saldremos saldréis saldrán
        saldría saldrías saldría saldríamos saldríais saldrían
        salga salgas salga salgamos salgáis salgan
        saliera salieras saliera saliéramos salierais salieran
    """,
    "conducir": """
        conduzco conduces conduce conducimos conducís conducen
        conduje condujiste condujo condujimos condujisteis condujeron
        conducía conducías conducía conducíamos conducíais conducían
        conduciré conducirás conducirá conduciremos conduciréis conducirán
        conduciría conducirías conduciría conduciríamos conduciríais conducirían
        conduzca conduzcas conduzca conduzcamos conduzcáis conduzcan
        condujera condujeras condujera condujéramos condujerais condujeran
    """,
    "dormir": """
        duermo duermes duerme dormimos dormís duermen
        dormí dormiste durmió dormimos dormisteis durmieron
        dormía dormías dormía dormíamos dormíais dormían
        dormiré dormirás dormirá dormiremos dormiréis dormirán
        dormiría dormirías dormiría dormiríamos dormiríais dormirían
        duerma duermas duerma durmamos durmáis duerman
        durmiera durmieras durmiera durmiéramos durmierais durmieran
    """,
    "sentir": """
        siento sientes siente sentimos sentís sienten
        sentí sentiste sintió sentimos sentisteis sintieron
        sentía sentías sentía sentíamos sentíais sentían
        sentiré sentirás sentirá sentiremos sentiréis sentirán
        sentiría sentirías sentiría sentiríamos sentiríais sentirían
        sienta sientas sienta sintamos sintáis sientan
        sintiera sintieras sintiera sintiéramos sintierais sintieran
    """,
    "pedir": """
        pido pides pide pedimos pedís piden
        pedí pediste pidió pedimos pedisteis pidieron
        pedía pedías pedía pedíamos pedíais pedían
        pediré pedirás pedirá pediremos pediréis pedirán
        pediría pedirías pediría pediríamos pediríais pedirían
        pida pidas pida pidamos pidáis pidan
        pidiera pidieras pidiera pidiéramos pidierais pidieran
    """,
    "pensar": """
        pienso piensas piensa pensamos pensáis piensan
        pensé pensaste pensó pensamos pensasteis pensaron
        pensaba pensabas pensaba pensábamos pensabais pensaban
        pensaré pensarás pensará pensaremos pensaréis pensarán
        pensaría pensarías pensaría pensaríamos pensaríais pensarían
        piense pienses piense pensemos penséis piensen
        pensara pensaras pensara pensáramos pensarais pensaran
    """,
    "perder": """
        pierdo pierdes pierde perdemos perdéis pierden
        perdí perdiste perdió perdimos perdisteis perdieron
        perdía perdías perdía perdíamos perdíais perdían
        perderé perderás perderá perderemos perderéis perderán
        perdería perderías perdería perderíamos perderíais perderían
        pierda pierdas pierda perdamos perdáis pierdan
        perdiera perdieras perdiera perdiéramos perdierais perdieran
    """,
    "volver": """
        vuelvo vuelves vuelve volvemos volvéis vuelven
        volví volviste volvió volvimos volvisteis volvieron
        volvía volvías volvía volvíamos volvíais volvían
        volveré volverás volverá volveremos volveréis volverán
        volvería volverías volvería volveríamos volveríais volverían
        vuelva vuelvas vuelva volvamos volváis vuelvan
        volviera volvieras volviera volviéramos volvierais volvieran
    """,
    "jugar": """
        juego juegas juega jugamos jugáis juegan
        jugué jugaste jugó jugamos jugasteis jugaron
        jugaba jugabas jugaba jugábamos jugabais jugaban
        jugaré jugarás jugará jugaremos jugaréis jugarán
        jugaría jugarías jugaría jugaríamos jugaríais jugarían
        juegue juegues juegue juguemos juguéis jueguen
        jugara jugaras jugara jugáramos jugarais jugaran
    """,
    "conocer": """
        conozco conoces conoce conocemos conocéis conocen
        conocí conociste conoció conocimos conocisteis conocieron
        conocía conocías conocía conocíamos conocíais conocían
        conoceré conocerás conocerá conoceremos conoceréis conocerán
        conocería conocerías conocería conoceríamos conoceríais conocerían
        conozca conozcas conozca conozcamos conozcáis conozcan
        conociera conocieras conociera conociéramos conocierais conocieran
    """,
    "construir": """
        construyo construyes construye construimos construís construyen
        construí construiste construyó construimos construisteis construyeron
        construía construías construía construíamos construíais construían
        construiré construirás construirá construiremos construiréis construirán
        construiría construirías construiría construiríamos construiríais construirían
        construya construyas construya construyamos construyáis construyan
        construyera construyeras construyera construyéramos construyerais construyeran
    """,
    "leer": """
        leo lees lee leemos leéis leen
        leí leíste leyó leímos leísteis leyeron
        leía leías leía leíamos leíais leían
        leeré leerás leerá leeremos leeréis leerán
        leería leerías leería leeríamos leeríais leerían
        lea leas lea leamos leáis lean
        leyera leyeras leyera leyéramos leyerais leyeran
    """,
    "seguir": """
        sigo sigues sigue seguimos seguís siguen
        seguí seguiste siguió seguimos seguisteis siguieron
        seguía seguías seguía seguíamos seguíais seguían
        seguiré seguirás seguirá seguiremos seguiréis seguirán
        seguiría seguirías seguiría seguiríamos seguiríais seguirían
        siga sigas siga sigamos sigáis sigan
        siguiera siguieras siguiera siguiéramos siguierais siguieran
    """,
    "elegir": """
        elijo eliges elige elegimos elegís eligen
        elegí elegiste eligió elegimos elegisteis eligieron
        elegía elegías elegía elegíamos elegíais elegían
        elegiré elegirás elegirá elegiremos elegiréis elegirán
        elegiría elegirías elegiría elegiríamos elegiríais elegirían
        elija elijas elija elijamos elijáis elijan
        eligiera eligieras eligiera eligiéramos eligierais eligieran
    """,
    "buscar": """
        busco buscas busca buscamos buscáis buscan
        busqué buscaste buscó buscamos buscasteis buscaron
        buscaba buscabas buscaba buscábamos buscabais buscaban
        buscaré buscarás buscará buscaremos buscaréis buscarán
        buscaría buscarías buscaría buscaríamos buscaríais buscarían
        busque busques busque busquemos busquéis busquen
        buscara buscaras buscara buscáramos buscarais buscaran
    """,
    "pagar": """
        pago pagas paga pagamos pagáis pagan
        pagué pagaste pagó pagamos pagasteis pagaron
        pagaba pagabas pagaba pagábamos pagabais pagaban
        pagaré pagarás pagará pagaremos pagaréis pagarán
        pagaría pagarías pagaría pagaríamos pagaríais pagarían
        pague pagues pague paguemos paguéis paguen
        pagara pagaras pagara pagáramos pagarais pagaran
    """,
    "empezar": """
        empiezo empiezas empieza empezamos empezáis empiezan
        empecé empezaste empezó empezamos empezasteis empezaron
        empezaba empezabas empezaba empezábamos empezabais empezaban
        empezaré empezarás empezará empezaremos empezaréis empezarán
        empezaría empezarías empezaría empezaríamos empezaríais empezarían
        empiece empieces empiece empecemos empecéis empiecen
        empezara empezaras empezara empezáramos empezarais empezaran
    """,
    "coger": """
        cojo coges coge cogemos cogéis cogen
        cogí cogiste cogió cogimos cogisteis cogieron
        cogía cogías cogía cogíamos cogíais cogían
        cogeré cogerás cogerá cogeremos cogeréis cogerán
        cogería cogerías cogería cogeríamos cogeríais cogerían
        coja cojas coja cojamos cojáis cojan
        cogiera cogieras cogiera cogiéramos cogierais cogieran
    """,
    "convencer": """
        convenzo convences convence convencemos convencéis convencen
        convencí convenciste convenció convencimos convencisteis convencieron
        convencía convencías convencía convencíamos convencíais convencían
        convenceré convencerás convencerá convenceremos convenceréis convencerán
        convencería convencerías convencería convenceríamos convenceríais convencerían
        convenza convenzas convenza convenzamos convenzáis convenzan
        convenciera convencieras convenciera convenciéramos convencierais convencieran
    """,
    "enviar": """
        envío envías envía enviamos enviáis envían
        envié enviaste envió enviamos enviasteis enviaron
        enviaba enviabas enviaba enviábamos enviabais enviaban
        enviaré enviarás enviará enviaremos enviaréis enviarán
        enviaría enviarías enviaría enviaríamos enviaríais enviarían
        envíe envíes envíe enviemos enviéis envíen
        enviara enviaras enviara enviáramos enviarais enviaran
    """,
    "continuar": """
        continúo continúas continúa continuamos continuáis continúan
        continué continuaste continuó continuamos continuasteis continuaron
        continuaba continuabas continuaba continuábamos continuabais continuaban
        continuaré continuarás continuará continuaremos continuaréis continuarán
        continuaría continuarías continuaría continuaríamos continuaríais continuarían
        continúe continúes continúe continuemos continuéis continúen
        continuara continuaras continuara continuáramos continuarais continuaran
    """,
    "reunir": """
        reúno reúnes reúne reunimos reunís reúnen
        reuní reuniste reunió reunimos reunisteis reunieron
        reunía reunías reunía reuníamos reuníais reunían
        reuniré reunirás reunirá reuniremos reuniréis reunirán
        reuniría reunirías reuniría reuniríamos reuniríais reunirían
        reúna reúnas reúna reunamos reunáis reúnan
        reuniera reunieras reuniera reuniéramos reunierais reunieran
    """,
}


def paradigm(verb: str, tense: str) -> list[str]:
    lines = [line.split() for line in PARADIGMS[verb].strip().splitlines()]
    assert [len(line) for line in lines] == [len(PERSONS)] * len(TENSES), verb
    return lines[TENSES.index(tense)]


@pytest.mark.parametrize("tense", TENSES)
@pytest.mark.parametrize("verb", PARADIGMS)
def test_paradigms(verb: str, tense: str) -> None:
    forms = [Verb(verb).conjugate(tense, person) for person in range(len(PERSONS))]
    assert forms == paradigm(verb, tense)


# One form each of the changes and exceptions that no whole paradigm above shows.
FORMS = """
    acostar present 0 acuesto
    acostar subjunctive 2 acueste
    actuar present 2 actúa
    almorzar preterite 0 almorcé
    almorzar subjunctive 2 almuerce
    andar preterite 2 anduvo
    aprobar present 2 aprueba
    atender present 2 atiende
    averiguar preterite 0 averigüé
    averiguar subjunctive 2 averigüe
    caber present 0 quepo
    caber preterite 2 cupo
    caber future 2 cabrá
    cerrar present 5 cierran
    colgar preterite 0 colgué
    colgar subjunctive 5 cuelguen
    comenzar present 1 comienzas
    conseguir present 0 consigo
    contar present 0 cuento
    corregir present 0 corrijo
    costar present 5 cuestan
    creer preterite 2 creyó
    cruzar preterite 0 crucé
    despedir preterite 5 despidieron
    despertar present 0 despierto
    deshacer preterite 2 deshizo
    deshacer future 0 desharé
    devolver present 2 devuelve
    distinguir present 0 distingo
    divertir preterite 2 divirtió
    doler present 2 duele
    encender present 0 enciendo
    encontrar present 3 encontramos
    encontrar present 5 encuentran
    entender subjunctive 3 entendamos
    esquiar present 0 esquío
    fotografiar present 1 fotografías
    freír present 0 frío
    freír present 3 freímos
    freír preterite 2 frio
    incluir present 0 incluyo
    llegar preterite 0 llegué
    llover present 2 llueve
    mentir preterite 5 mintieron
    merecer present 0 merezco
    morir preterite 2 murió
    morir subjunctive 3 muramos
    mostrar present 0 muestro
    mover present 2 mueve
    nevar present 2 nieva
    obtener present 2 obtiene
    obtener preterite 0 obtuve
    obtener future 5 obtendrán
    parecer present 0 parezco
    pedir past_subjunctive 0 pidiera
    preferir present 0 prefiero
    preferir preterite 2 prefirió
    producir preterite 5 produjeron
    probar present 0 pruebo
    proponer present 0 propongo
    proponer preterite 2 propuso
    proteger present 0 protejo
    recomendar present 0 recomiendo
    recordar present 2 recuerda
    regar preterite 0 regué
    regar subjunctive 2 riegue
    repetir present 2 repite
    sacar preterite 0 saqué
    sentar present 0 siento
    servir preterite 2 sirvió
    soler present 0 suelo
    soñar present 0 sueño
    sugerir present 2 sugiere
    suponer present 0 supongo
    suponer future 0 supondré
    tocar subjunctive 2 toque
    traducir present 0 traduzco
    traducir preterite 0 traduje
    utilizar subjunctive 0 utilice
    vaciar present 2 vacía
    valer present 0 valgo
    valer future 2 valdrá
    vencer present 0 venzo
    vestir preterite 2 vistió
    volar present 2 vuela
    estudiar present 0 estudio
    estudiar preterite 0 estudié
    limpiar subjunctive 2 limpie
    cambiar present 2 cambia
"""


@pytest.mark.parametrize("line", FORMS.strip().splitlines(), ids=str.strip)
def test_single_forms(line: str) -> None:
    verb, tense, person, form = line.split()
    assert Verb(verb).conjugate(tense, int(person)) == form


PARTICIPLES = """
    hablar hablado
    comer comido
    vivir vivido
    ser sido
    ir ido
    estar estado
    haber habido
    tener tenido
    hacer hecho
    deshacer deshecho
    decir dicho
    poner puesto
    proponer propuesto
    suponer supuesto
    venir venido
    poder podido
    querer querido
    saber sabido
    dar dado
    ver visto
    oír oído
    reír reído
    sonreír sonreído
    freír frito
    traer traído
    caer caído
    leer leído
    creer creído
    construir construido
    conducir conducido
    dormir dormido
    morir muerto
    volver vuelto
    devolver devuelto
    envolver envuelto
    abrir abierto
    cubrir cubierto
    descubrir descubierto
    escribir escrito
    describir descrito
    romper roto
    seguir seguido
    empezar empezado
    enviar enviado
    reunir reunido
"""
GERUNDS = """
    hablar hablando
    comer comiendo
    vivir viviendo
    ser siendo
    ir yendo
    estar estando
    haber habiendo
    tener teniendo
    hacer haciendo
    decir diciendo
    poner poniendo
    venir viniendo
    poder pudiendo
    querer queriendo
    saber sabiendo
    dar dando
    ver viendo
    oír oyendo
    reír riendo
    sonreír sonriendo
    traer trayendo
    caer cayendo
    leer leyendo
    creer creyendo
    construir construyendo
    conducir conduciendo
    dormir durmiendo
    morir muriendo
    pedir pidiendo
    servir sirviendo
    repetir repitiendo
    vestir vistiendo
    elegir eligiendo
    sentir sintiendo
    divertir divirtiendo
    preferir prefiriendo
    seguir siguiendo
    pensar pensando
    volver volviendo
    jugar jugando
    coger cogiendo
    reunir reuniendo
    enviar enviando
"""


@pytest.mark.parametrize("line", PARTICIPLES.strip().splitlines(), ids=str.strip)
def test_participles(line: str) -> None:
    verb, form = line.split()
    assert Verb(verb).participle == form


@pytest.mark.parametrize("line", GERUNDS.strip().splitlines(), ids=str.strip)
def test_gerunds(line: str) -> None:
    verb, form = line.split()
    assert Verb(verb).gerund == form


# To tú, usted, nosotros, vosotros, ustedes.
IMPERATIVES = {
    "hablar": "habla hable hablemos hablad hablen",
    "comer": "come coma comamos comed coman",
    "abrir": "abre abra abramos abrid abran",
    "ser": "sé sea seamos sed sean",
    "ir": "ve vaya vayamos id vayan",
    "tener": "ten tenga tengamos tened tengan",
    "mantener": "mantén mantenga mantengamos mantened mantengan",
    "hacer": "haz haga hagamos haced hagan",
    "decir": "di diga digamos decid digan",
    "poner": "pon ponga pongamos poned pongan",
    "proponer": "propón proponga propongamos proponed propongan",
    "salir": "sal salga salgamos salid salgan",
    "venir": "ven venga vengamos venid vengan",
    "dar": "da dé demos dad den",
    "ver": "ve vea veamos ved vean",
    "oír": "oye oiga oigamos oíd oigan",
    "reír": "ríe ría riamos reíd rían",
    "traer": "trae traiga traigamos traed traigan",
    "conducir": "conduce conduzca conduzcamos conducid conduzcan",
    "dormir": "duerme duerma durmamos dormid duerman",
    "pedir": "pide pida pidamos pedid pidan",
    "pensar": "piensa piense pensemos pensad piensen",
    "volver": "vuelve vuelva volvamos volved vuelvan",
    "jugar": "juega juegue juguemos jugad jueguen",
    "leer": "lee lea leamos leed lean",
    "seguir": "sigue siga sigamos seguid sigan",
    "buscar": "busca busque busquemos buscad busquen",
    "pagar": "paga pague paguemos pagad paguen",
    "empezar": "empieza empiece empecemos empezad empiecen",
    "coger": "coge coja cojamos coged cojan",
    "enviar": "envía envíe enviemos enviad envíen",
    "continuar": "continúa continúe continuemos continuad continúen",
    "reunir": "reúne reúna reunamos reunid reúnan",
}


@pytest.mark.parametrize("verb", IMPERATIVES)
def test_imperatives(verb: str) -> None:
    forms = [Verb(verb).imperative(person) for person in range(1, len(PERSONS))]
    assert forms == IMPERATIVES[verb].split()


@pytest.mark.parametrize(
    ("name", "infinitive", "reflexive"),
    [
        ("comer", "comer", False),
        ("levantarse", "levantar", True),
        ("irse", "ir", True),
        ("reírse", "reír", True),
        ("ser", "ser", False),
    ],
)
def test_dictionary_forms(name: str, infinitive: str, reflexive: bool) -> None:
    assert Verb.named(name) == Verb(infinitive, reflexive)


PLURALS = """
    libro libros
    casa casas
    coche coches
    café cafés
    té tés
    pie pies
    sofá sofás
    mamá mamás
    taxi taxis
    ciudad ciudades
    mujer mujeres
    papel papeles
    árbol árboles
    móvil móviles
    reloj relojes
    mes meses
    autobús autobuses
    interés intereses
    inglés ingleses
    canción canciones
    avión aviones
    jardín jardines
    almacén almacenes
    común comunes
    león leones
    tren trenes
    luz luces
    vez veces
    pez peces
    lápiz lápices
    raíz raíces
    feliz felices
    rey reyes
    baúl baúles
    país países
    gris grises
    azul azules
    fácil fáciles
    útil útiles
    lunes lunes
    miércoles miércoles
    paraguas paraguas
    cumpleaños cumpleaños
    crisis crisis
    tórax tórax
    sándwich sándwiches
"""


@pytest.mark.parametrize("line", PLURALS.strip().splitlines(), ids=str.strip)
def test_plurals(line: str) -> None:
    singular, expected = line.split()
    assert plural(singular) == expected


FEMININES = """
    rojo roja
    largo larga
    frío fría
    verde verde
    inteligente inteligente
    optimista optimista
    azul azul
    fácil fácil
    feliz feliz
    joven joven
    gris gris
    mejor mejor
    mayor mayor
    interior interior
    trabajador trabajadora
    encantador encantadora
    hablador habladora
    inglés inglesa
    japonés japonesa
    alemán alemana
    dormilón dormilona
    español española
"""


@pytest.mark.parametrize("line", FEMININES.strip().splitlines(), ids=str.strip)
def test_feminines(line: str) -> None:
    masculine, expected = line.split()
    assert feminine(masculine) == expected


@pytest.mark.parametrize(
    ("adjective", "short"),
    [
        ("bueno", "buen"),
        ("malo", "mal"),
        ("grande", "gran"),
        ("nuevo", "nuevo"),
        ("buena", "buena"),
    ],
)
def test_short_forms(adjective: str, short: str) -> None:
    assert before_noun(adjective) == short


# form + pronouns = whole
ATTACHED = """
    da me = dame
    da me lo = dámelo
    dé me = deme
    dé me lo = démelo
    den me = denme
    dad me = dadme
    dad me lo = dádmelo
    di me = dime
    di me lo = dímelo
    di nos lo = dínoslo
    pon te = ponte
    pon te lo = póntelo
    ve te = vete
    ven te = vente
    haz lo = hazlo
    haz me lo = házmelo
    ten lo = tenlo
    compra lo = cómpralo
    compre lo = cómprelo
    comprad lo = compradlo
    compra me lo = cómpramelo
    come lo = cómelo
    come te lo = cómetelo
    abre la = ábrela
    cierra la = ciérrala
    levanta te = levántate
    acuesta te = acuéstate
    sienta te = siéntate
    siente se = siéntese
    sienten se = siéntense
    calla te = cállate
    cuida te = cuídate
    ayuda me = ayúdame
    espera me = espérame
    perdona me = perdóname
    trae lo = tráelo
    traiga me lo = tráigamelo
    diga me = dígame
    digan nos lo = dígannoslo
    oiga me = óigame
    oye me = óyeme
    lee lo = léelo
    cree me = créeme
    ríe te = ríete
    envía lo = envíalo
    envíe me lo = envíemelo
    continúa lo = continúalo
    limpia lo = límpialo
    estudia lo = estúdialo
    cambia la = cámbiala
    sigue me = sígueme
    busca lo = búscalo
    busque lo = búsquelo
    averigua lo = averígualo
    incluye lo = inclúyelo
    reúne te = reúnete
    está te = estate
    comprar lo = comprarlo
    comprar me lo = comprármelo
    dar lo = darlo
    dar se lo = dárselo
    decir le = decirle
    decir se lo = decírselo
    traer lo = traerlo
    traer me lo = traérmelo
    leer lo = leerlo
    levantar se = levantarse
    ir me = irme
    oír lo = oírlo
    reír se = reírse
    sonreír le = sonreírle
    reunir nos = reunirnos
    comprando lo = comprándolo
    comprando me lo = comprándomelo
    dando le = dándole
    viendo lo = viéndolo
    leyendo lo = leyéndolo
    diciendo me lo = diciéndomelo
    estudiando lo = estudiándolo
    vistiendo se = vistiéndose
    yendo se = yéndose
    riendo se = riéndose
    construyendo la = construyéndola
    siguiendo me = siguiéndome
    comamos lo = comámoslo
    vamos nos = vámonos
    sentemos nos = sentémonos
    pongamos nos = pongámonos
    levantemos nos = levantémonos
    digamos lo = digámoslo
    levantad os = levantaos
    sentad os = sentaos
    poned os = poneos
    divertid os = divertíos
    vestid os = vestíos
    id os = idos
    habla = habla
    está = está
"""


@pytest.mark.parametrize("line", ATTACHED.strip().splitlines(), ids=str.strip)
def test_attached_pronouns(line: str) -> None:
    parts, _, whole = line.strip().partition(" = ")
    form, *pronouns = parts.split()
    assert attach(form, *pronouns) == whole
